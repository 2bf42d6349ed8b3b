/* Sums and norms of whole vectors, with the same bits on every CPU: each element is rounded once, and sums are kept in as
   many lanes as any CPU's vectors have. */

#include <math.h>

#include "each_cpu.h"

#define LANES 16

/* y += a x, rounded once. */
EACH_CPU
void fedmpi_axpy(long d, float a, const float *restrict x, float *restrict y) {
    for (long j = 0; j < d; j++) y[j] = fmaf(a, x[j], y[j]);
}

/* The sum of the squares of x, whose products are exact in double precision. */
EACH_CPU
double fedmpi_squares(long d, const float *x) {
    double lane[LANES] = {0}, sum = 0;
    long j = 0;
    for (; j + LANES <= d; j += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += (double)x[j + k] * (double)x[j + k];
    for (int k = 0; j + k < d; k++) lane[k] += (double)x[j + k] * (double)x[j + k];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}
