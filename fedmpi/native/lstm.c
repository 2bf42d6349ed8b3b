/* What an LSTM layer does in one step of time besides matrix products, for a batch of rows, forward and backward.

   Gates of a row stand as torch has them: i, f, g, o, each of H units. c' = f c + i g, h = o tanh c', where i, f, o
   are sigmoids and g a tanh. Written so that a compiler turns the loops over units into vector instructions. */

#include <stdint.h>
#include <string.h>

#include "each_cpu.h"

/* Runs `unit(j)` for each of H units, none of which reads what another writes: in vectors of 16, and of 4 for the rest
   (100 units leave 4), where the CPU has such. */
#define FOR_EACH_UNIT(H, unit)                         \
    long whole = (H) / 16 * 16;                        \
    _Pragma("omp simd simdlen(16)")                    \
    for (long j = 0; j < whole; j++) unit;             \
    _Pragma("omp simd simdlen(4)")                     \
    for (long j = whole; j < (H); j++) unit

#define INLINE static inline __attribute__((always_inline))

/* x within -most..most; NaN stays NaN, so that a run that diverges is seen to. */
INLINE float within(float x, float most) {
    x = most < x ? most : x;
    return -most > x ? -most : x;
}

/* e^x - 1 = s p + (s - 1) with s = 2^n and p = e^r - 1, where x = n ln 2 + r and |r| <= ln 2 / 2. For |x| <= 80. */
INLINE float exp_less_1(float x, float *s) {
    const float rounder = 12582912.0f; /* 3 * 2^22: adding it leaves the nearest integer in the last bits */
    float rounded = x * 1.44269504f + rounder;
    float n = rounded - rounder;
    float r = x - n * 0.693145752f - n * 1.42860677e-6f; /* ln 2 in two parts, the first of few bits */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 1.0f / 2;
    p = p * r * r + r;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    bits = (bits << 23) + 0x3f800000;
    memcpy(s, &bits, sizeof bits);
    return p;
}

/* 1 / sigmoid(x), at most e^40. */
INLINE float one_over_sigmoid(float x) {
    float s, p = exp_less_1(-within(x, 40.0f), &s);
    return s * p + (s + 1.0f);
}

/* e^2x - 1, which is small where x is: tanh x = (e^2x - 1) / (e^2x + 1). */
INLINE float exp_2x_less_1(float x) {
    float s, p = exp_less_1(within(x + x, 40.0f), &s);
    return s * p + (s - 1.0f);
}

INLINE float tanh_of(float x) {
    float e = exp_2x_less_1(x);
    return e / (e + 2.0f);
}

INLINE void unit_forward(long H, long j, const float *a, const float *c, float *gates, float *c_next, float *h,
                         float *above) {
    float u = one_over_sigmoid(gates[j] + a[j]);
    float v = one_over_sigmoid(gates[H + j] + a[H + j]);
    float e = exp_2x_less_1(gates[2 * H + j] + a[2 * H + j]);
    float w = one_over_sigmoid(gates[3 * H + j] + a[3 * H + j]);
    /* Two quotients from one division, which is what costs most here. */
    float uv = 1.0f / (u * v), ew = 1.0f / ((e + 2.0f) * w);
    float i = v * uv, f = u * uv, g = e * w * ew, o = (e + 2.0f) * ew;
    float cell = f * c[j] + i * g;
    float out = o * tanh_of(cell);
    gates[j] = i;
    gates[H + j] = f;
    gates[2 * H + j] = g;
    gates[3 * H + j] = o;
    c_next[j] = cell;
    h[j] = out;
    above[j] = out;
}

/* From gates (rows, 4H), which hold the recurrent product, and the row of `table` that `index` names (the rest of their
   sums: the input's product and the biases): the gates in their place, c' and h. h goes to two places, this layer's
   next input and the input of what is above, whose rows are `h_stride` and `above_stride` apart. c' may be c. */
EACH_CPU
void fedmpi_lstm_forward(long rows, long H, const float *table, const int64_t *index, const float *c, float *gates,
                         float *c_next, float *h, long h_stride, float *above, long above_stride) {
    for (long row = 0; row < rows; row++) {
        const float *a = table + index[row] * 4 * H;
        FOR_EACH_UNIT(H, unit_forward(H, j, a, c, gates, c_next, h, above));
        gates += 4 * H, c += H, c_next += H, h += h_stride, above += above_stride;
    }
}

INLINE void unit_backward(long H, long j, const float *c, const float *c_next, const float *dh, const float *above,
                          float *dc, float *gates, float *d) {
    float i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
    float out = dh[j] + above[j];
    float tanh_c = tanh_of(c_next[j]);
    float cell = dc[j] + out * o * (1 - tanh_c * tanh_c);
    float di = cell * g * i * (1 - i);
    float df = cell * c[j] * f * (1 - f);
    float dg = cell * i * (1 - g * g);
    float do_ = out * tanh_c * o * (1 - o);
    dc[j] = cell * f;
    gates[j] = di;
    gates[H + j] = df;
    gates[2 * H + j] = dg;
    gates[3 * H + j] = do_;
    d[j] += di;
    d[H + j] += df;
    d[2 * H + j] += dg;
    d[3 * H + j] += do_;
}

/* From the gates (rows, 4H), c, c', and dh, the sum of what came from this layer's next step and from above: the
   derivatives by the sums in the gates' place, also added to the named row of dtable. dc' becomes dc. */
EACH_CPU
void fedmpi_lstm_backward(long rows, long H, const float *c, const float *c_next, const float *dh, long dh_stride,
                          const float *above, long above_stride, const int64_t *index, float *dc, float *gates,
                          float *dtable) {
    for (long row = 0; row < rows; row++) {
        float *d = dtable + index[row] * 4 * H;
        FOR_EACH_UNIT(H, unit_backward(H, j, c, c_next, dh, above, dc, gates, d));
        gates += 4 * H, c += H, c_next += H, dc += H, dh += dh_stride, above += above_stride;
    }
}
