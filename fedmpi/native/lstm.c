/* The loss and the gradient of a next-character LSTM, whole: all layers, all steps, the output layer and its softmax.

   Included once per kernel are products.h and lstm.h; here is what does not depend on vectors: the layout of memory, the
   packing of weights, and the functions that Python calls. The same bits on every CPU: see simd.h and products.h. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define X86
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 12")
#else
#define UNROLL
#endif

/* Columns of a batch that stand together, and rows of A that `pack` puts together. */
#define PANEL 32
#define BLOCK 12

/* `rows` rows of PANEL numbers for each panel of the batch and each step; steps share memory if there are fewer slots. */
typedef struct {
    float *at;
    long size, slots, step, panel;
} Array;

/* in: numbers of a layer's input from below; width: those of [1 | x | h]; dwidth: the same, up to a multiple of 16. */
typedef struct {
    long in, width, dwidth;
    Array inputs, c, gates, dinputs, dc;
    float *weight, *weight_t, *dweight;
} Layer;

/* V characters, an embedding of E numbers, L layers of H units; a batch of B windows of T characters. */
typedef struct {
    long V, E, H, L, B, T;
    long panels, output_width;
    Layer *layers;
    Array top, scores, dtop;
    const float *embedding;
    float *dembedding, *output, *output_t, *doutput, *dgates, *transposed;
} Space;

static inline long least(long x, long y) { return x < y ? x : y; }
static inline long up(long x, long multiple) { return (x + multiple - 1) / multiple * multiple; }
static inline float *part(Array a, long t, long p) { return a.at + t % a.slots * a.step + p * a.panel; }
/* How many columns of a panel are windows of the batch, and how many are computed. */
static inline long batch(const Space *s, long p) { return least(s->B - p * PANEL, PANEL); }
static inline long columns(const Space *s, long p) { return up(batch(s, p), 16); }
static void zero(float *at, long size) { memset(at, 0, (size_t)size * sizeof *at); }

/* Rows of a panel as columns: out(j, i) = panel(i, j), with zeros for the columns that `panel` has no rows for. */
static void transpose(const float *panel, long rows, float *out, long width) {
    for (long i = 0; i < width; i++)
        for (long j = 0; j < PANEL; j++) out[j * width + i] = i < rows ? panel[i * PANEL + j] : 0.0f;
}

/* Write the embeddings of the characters at step t into the first layer's input. */
static void embed(const Space *s, const int64_t *x, long t) {
    for (long b = 0; b < s->B; b++) {
        float *input = part(s->layers[0].inputs, t, b / PANEL) + PANEL + b % PANEL;
        for (long e = 0; e < s->E; e++) input[e * PANEL] = s->embedding[x[b * s->T + t] * s->E + e];
    }
}

/* Add the derivatives by the first layer's input at step t to those of the characters' embeddings. */
static void add_to_embedding(const Space *s, const int64_t *x, long t) {
    for (long b = 0; b < s->B; b++) {
        const float *d = part(s->layers[0].dinputs, 0, b / PANEL) + b % PANEL;
        for (long e = 0; e < s->E; e++) s->dembedding[x[b * s->T + t] * s->E + e] += d[e * PANEL];
    }
}

/* The kernels; the numbers are those of native/__init__.py. */
#define PLAIN 0
#define AVX2 1
#define AVX512 2

#ifdef X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#endif
#define KERNEL AVX512
#include "simd.h"
#include "products.h"
#include "lstm.h"
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#undef KERNEL
#define KERNEL AVX2
#include "simd.h"
#include "products.h"
#include "lstm.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef KERNEL
#endif
#define KERNEL PLAIN
#include "simd.h"
#include "products.h"
#include "lstm.h"

static int in_use = PLAIN;

static int is_supported(int kernel) {
#ifdef X86
    if (kernel == AVX512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (kernel == AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return kernel == PLAIN;
}

/* Use this kernel from here on, or the best one that this CPU has if it lacks it; returns the one in use. */
int fedmpi_use_kernel(int wanted) {
    for (in_use = wanted; in_use > PLAIN && !is_supported(in_use); in_use--) continue;
    return in_use;
}

#ifdef X86
#define CALL(function, ...)                                     \
    (in_use == AVX512 ? function##_avx512(__VA_ARGS__)          \
     : in_use == AVX2 ? function##_avx2(__VA_ARGS__)            \
                      : function##_plain(__VA_ARGS__))
#else
#define CALL(function, ...) function##_plain(__VA_ARGS__)
#endif

double fedmpi_peak(long turns) { return CALL(peak, turns); }

/* Memory of which `used` floats are taken; without a base they are only counted. */
typedef struct {
    float *base;
    long used;
} Memory;

static float *take(Memory *memory, long size) {
    float *at = memory->base ? memory->base + memory->used : 0;
    memory->used += up(size, 16);
    return at;
}

static Array take_array(Memory *memory, long slots, long panels, long rows) {
    Array a = {0, slots * panels * rows * PANEL, slots, panels * rows * PANEL, rows * PANEL};
    a.at = take(memory, a.size);
    return a;
}

/* Fill in where everything is, from `base` on; returns how many floats that takes. keep: whether every step has its own
   memory, which the gradient needs; else steps share it. */
static long lay_out(Space *s, const long *sizes, Layer *layers, int keep, float *base) {
    Memory next = {base, 0};
    s->V = sizes[0], s->E = sizes[1], s->H = sizes[2], s->L = sizes[3], s->B = sizes[4], s->T = sizes[5];
    s->panels = (s->B + PANEL - 1) / PANEL, s->layers = layers;
    const long P = s->panels, H = s->H;
    long widest = up(1 + H, 16);
    for (long l = 0; l < s->L; l++) {
        Layer *a = &layers[l];
        a->in = l ? H : s->E, a->width = 1 + a->in + H, a->dwidth = up(a->width, 16);
        a->inputs = take_array(&next, keep ? s->T + 1 : 2, P, a->width);
        a->c = take_array(&next, keep ? s->T + 1 : 1, P, H);
        a->gates = take_array(&next, keep ? s->T : 1, P, 4 * H);
        a->weight = take(&next, up(4 * H, BLOCK) * a->width);
        if (!keep) continue;
        a->dinputs = take_array(&next, 1, P, up(a->in + H, 4));
        a->dc = take_array(&next, 1, P, H);
        a->weight_t = take(&next, up(a->in + H, BLOCK) * 4 * H);
        a->dweight = take(&next, 4 * H * a->dwidth);
        if (a->dwidth > widest) widest = a->dwidth;
    }
    s->output_width = up(1 + H, 16);
    s->top = take_array(&next, 1, P, 1 + H);
    s->scores = take_array(&next, 1, P, up(s->V, 4));
    s->output = take(&next, up(s->V, BLOCK) * (1 + H));
    if (keep) {
        s->dtop = take_array(&next, 1, P, up(H, 4));
        s->output_t = take(&next, up(H, BLOCK) * s->V);
        s->doutput = take(&next, up(s->V, 4) * s->output_width);
        s->dgates = take(&next, 4 * H * PANEL);
        s->transposed = take(&next, widest * PANEL);
    }
    return next.used;
}

long fedmpi_lstm_memory(const long *sizes, int keep) {
    Space s;
    Layer layers[sizes[3]];
    return lay_out(&s, sizes, layers, keep, 0);
}

/* Where row i and column k of a packed A of K columns is: BLOCK rows at a time, k by k. */
static inline float *packed(float *a, long K, long i, long k) { return a + i / BLOCK * BLOCK * K + k * BLOCK + i % BLOCK; }

/* The row of PyTorch's weights, which stand gate by gate (i, f, g, o), for a row of ours, which stand unit by unit. */
static inline long torch_row(long H, long row) { return row % 4 * H + row / 4; }

/* Pack the weights from theta, which stands as PyTorch's parameters do. */
static void take_theta(Space *s, const float *theta, int keep) {
    const long H = s->H;
    s->embedding = theta;
    theta += s->V * s->E;
    for (long l = 0; l < s->L; l++) {
        Layer *a = &s->layers[l];
        const float *w_x = theta, *w_h = w_x + 4 * H * a->in, *b_x = w_h + 4 * H * H, *b_h = b_x + 4 * H;
        theta = b_h + 4 * H;
        zero(a->weight, up(4 * H, BLOCK) * a->width);
        for (long i = 0; i < 4 * H; i++) {
            long row = torch_row(H, i);
            *packed(a->weight, a->width, i, 0) = b_x[row] + b_h[row];
            for (long k = 0; k < a->in; k++) *packed(a->weight, a->width, i, 1 + k) = w_x[row * a->in + k];
            for (long k = 0; k < H; k++) *packed(a->weight, a->width, i, 1 + a->in + k) = w_h[row * H + k];
        }
        if (!keep) continue;
        zero(a->weight_t, up(a->in + H, BLOCK) * 4 * H);
        for (long k = 0; k < 4 * H; k++) {
            long row = torch_row(H, k);
            for (long i = 0; i < a->in; i++) *packed(a->weight_t, 4 * H, i, k) = w_x[row * a->in + i];
            for (long i = 0; i < H; i++) *packed(a->weight_t, 4 * H, a->in + i, k) = w_h[row * H + i];
        }
    }
    const float *w = theta, *b = theta + s->V * H;
    zero(s->output, up(s->V, BLOCK) * (1 + H));
    for (long v = 0; v < s->V; v++) {
        *packed(s->output, 1 + H, v, 0) = b[v];
        for (long k = 0; k < H; k++) *packed(s->output, 1 + H, v, 1 + k) = w[v * H + k];
    }
    if (!keep) return;
    zero(s->output_t, up(H, BLOCK) * s->V);
    for (long v = 0; v < s->V; v++)
        for (long i = 0; i < H; i++) *packed(s->output_t, s->V, i, v) = w[v * H + i];
}

static void set_ones(Array a) {
    for (float *row = a.at; row < a.at + a.size; row += a.panel)
        for (int j = 0; j < PANEL; j++) row[j] = 1.0f;
}

/* The states before the first step, the ones of the inputs, and sums that start at zero. */
static void start(Space *s, int keep) {
    for (long l = 0; l < s->L; l++) {
        Layer *a = &s->layers[l];
        zero(a->inputs.at, l ? a->inputs.step : a->inputs.size); /* columns that no window fills stay zero */
        set_ones(a->inputs);
        zero(a->c.at, a->c.step);
        if (!keep) continue;
        zero(a->dinputs.at, a->dinputs.size);
        zero(a->dc.at, a->dc.size);
        zero(a->dweight, 4 * s->H * a->dwidth);
    }
    set_ones(s->top);
    if (keep) zero(s->doutput, up(s->V, 4) * s->output_width);
}

/* The natural logarithm of x >= 1e-300, by the series of artanh: a libm's may differ from CPU to CPU. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    long exponent = (long)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    memcpy(&x, &bits, sizeof x);
    if (x > 1.4142135623730951) x *= 0.5, exponent++;
    double z = (x - 1) / (x + 1), sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * z * z + 1.0 / k;
    return exponent * 0.6931471805599453 + 2 * z * sum;
}

static int is_outside(const int64_t *x, long count, long V) {
    for (long k = 0; k < count; k++)
        if (x[k] < 0 || x[k] >= V) return 1;
    return 0;
}

/* The sum of the cross-entropies of a panel; its scores become e^(score - largest), whose sums are returned. */
static double cross_entropies(const Space *s, long p, const int64_t *y, float *sum) {
    float largest[PANEL], of_y[PANEL], *score = part(s->scores, 0, p);
    double loss = 0;
    for (long j = 0; j < batch(s, p); j++) of_y[j] = score[y[p * PANEL + j] * PANEL + j];
    CALL(softmax, s->V, score, largest, sum);
    for (long j = 0; j < batch(s, p); j++)
        loss += sum[j] >= 1.0f ? logarithm(sum[j]) + ((double)largest[j] - (double)of_y[j]) : (double)NAN;
    return loss;
}

/* The mean cross-entropy of B windows x of T characters, followed by y, and its gradient, which stands as theta does.
   sizes: V, E, H, L, B, T. Returns 1 if a character is not in 0..V-1, else 0. */
int fedmpi_lstm_gradient(const long *sizes, const float *theta, const int64_t *x, const int64_t *y, float *grad,
                         float *memory, double *loss) {
    Space space, *s = &space;
    Layer layers[sizes[3]];
    lay_out(s, sizes, layers, 1, memory);
    const long H = s->H, V = s->V;
    if (is_outside(x, s->B * s->T, V) || is_outside(y, s->B, V)) return 1;
    take_theta(s, theta, 1);
    start(s, 1);
    CALL(forward, s, x);
    *loss = 0;
    for (long p = 0; p < s->panels; p++) {
        float sum[PANEL], share[PANEL] = {0}, *d = part(s->scores, 0, p);
        *loss += cross_entropies(s, p, y, sum);
        /* The derivative by the scores: (softmax - one-hot(y)) / B; zero in columns that are no windows. */
        for (long j = 0; j < batch(s, p); j++) share[j] = 1.0f / (sum[j] * (float)s->B);
        for (long v = 0; v < up(V, 4); v++)
            for (long j = 0; j < PANEL; j++) d[v * PANEL + j] = v < V && j < batch(s, p) ? d[v * PANEL + j] * share[j] : 0.0f;
        for (long j = 0; j < batch(s, p); j++) d[y[p * PANEL + j] * PANEL + j] -= 1.0f / (float)s->B;
    }
    *loss /= (double)s->B;
    s->dembedding = grad;
    zero(grad, V * s->E);
    CALL(backward, s, x);
    grad += V * s->E;
    for (long l = 0; l < s->L; l++) {
        const Layer *a = &layers[l];
        float *w_x = grad, *w_h = w_x + 4 * H * a->in, *b_x = w_h + 4 * H * H, *b_h = b_x + 4 * H;
        for (long i = 0; i < 4 * H; i++) {
            const float *d = a->dweight + i * a->dwidth;
            long row = torch_row(H, i);
            b_x[row] = b_h[row] = d[0];
            memcpy(w_x + row * a->in, d + 1, (size_t)a->in * sizeof *d);
            memcpy(w_h + row * H, d + 1 + a->in, (size_t)H * sizeof *d);
        }
        grad = b_h + 4 * H;
    }
    for (long v = 0; v < V; v++) {
        const float *d = s->doutput + v * s->output_width;
        memcpy(grad + v * H, d + 1, (size_t)H * sizeof *d);
        grad[V * H + v] = d[0];
    }
    return 0;
}

/* The sum of the cross-entropies of the windows, and how many of them have their largest score (the first of them) at y. */
int fedmpi_lstm_evaluate(const long *sizes, const float *theta, const int64_t *x, const int64_t *y, float *memory,
                         double *loss, double *correct) {
    Space space, *s = &space;
    Layer layers[sizes[3]];
    lay_out(s, sizes, layers, 0, memory);
    if (is_outside(x, s->B * s->T, s->V) || is_outside(y, s->B, s->V)) return 1;
    take_theta(s, theta, 0);
    start(s, 0);
    CALL(forward, s, x);
    *loss = *correct = 0;
    for (long p = 0; p < s->panels; p++) {
        const float *score = part(s->scores, 0, p);
        for (long j = 0; j < batch(s, p); j++) {
            long best = 0;
            for (long v = 1; v < s->V; v++)
                if (score[v * PANEL + j] > score[best * PANEL + j]) best = v;
            *correct += best == y[p * PANEL + j];
        }
        float sum[PANEL];
        *loss += cross_entropies(s, p, y, sum);
    }
    return 0;
}
