/* The server's sum in fixed point, in one pass over memory; bit for bit what fedmpi/server.py does with numpy. */

#include <stdint.h>
#include <string.h>

#include "each_cpu.h"

/* A product and the sum that follows it are rounded one after the other, as numpy rounds them, not once for both. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* Sums of squares kept side by side, so that they can be added up in one instruction. */
#define LANES 8

/* total += delta * quanta, rounded to whole numbers, half to even; |delta * quanta| < 2^51. Adding 1.5 * 2^52 leaves no
   room for a fraction: the rounded number then stands in the last bits. */
EACH_CPU
void fedmpi_fixed_add(long d, const float *restrict delta, double quanta, int64_t *restrict total) {
    const double rounder = 6755399441055744.0;
    uint64_t rounder_bits;
    memcpy(&rounder_bits, &rounder, sizeof rounder_bits);
    for (long j = 0; j < d; j++) {
        double rounded = (double)delta[j] * quanta + rounder;
        uint64_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        total[j] = (int64_t)((uint64_t)total[j] + bits - rounder_bits);
    }
}

/* out = theta + total * step, in double precision until the end; `out` may be `theta`. The sum of the squares of
   total * step goes to `squares`. */
EACH_CPU
void fedmpi_fixed_apply(long d, const int64_t *total, double step, const float *theta, float *out, double *squares) {
    double lane[LANES] = {0};
    long j = 0;
    for (; j + LANES <= d; j += LANES)
        for (int k = 0; k < LANES; k++) {
            double moved = (double)total[j + k] * step;
            lane[k] += moved * moved;
            out[j + k] = (float)(moved + (double)theta[j + k]);
        }
    for (; j < d; j++) {
        double moved = (double)total[j] * step;
        lane[0] += moved * moved;
        out[j] = (float)(moved + (double)theta[j]);
    }
    *squares = 0;
    for (int k = 0; k < LANES; k++) *squares += lane[k];
}
