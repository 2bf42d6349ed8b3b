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

/* Windows of a batch that are computed together, and rows of A that stand together when it is packed. */
#define PANEL 32
#define BLOCK 12

/* A panel's numbers at each step, `size` apart; steps share memory if there are fewer slots than steps. */
typedef struct {
    float *at;
    long slots, size;
} Steps;

/* in: numbers of a layer's input from below; width: those of [1 | x | h]; dwidth: the same, up to a multiple of 16. */
typedef struct {
    long in, width, dwidth;
    Steps inputs, c, gates;
    float *weight, *weight_t, *dweight, *dinput, *dc;
} Layer;

/* V characters, an embedding of E numbers, L layers of H units; a batch of B windows of T characters. It is computed one
   panel after the other, so that what a panel leaves for its gradient stays in the cache: `first` is the panel's first
   window, `windows` is how many it has, `columns` how many columns are computed. */
typedef struct {
    long V, E, H, L, B, T;
    long first, windows, columns, output_width;
    Layer *layers;
    const float *embedding;
    float *dembedding, *output, *output_t, *doutput, *top, *dtop, *scores, *dgates, *transposed;
} Space;

static inline long least(long x, long y) { return x < y ? x : y; }
static inline long up(long x, long multiple) { return (x + multiple - 1) / multiple * multiple; }
static inline float *at_step(Steps a, long t) { return a.at + t % a.slots * a.size; }
static void zero(float *at, long size) { memset(at, 0, (size_t)size * sizeof *at); }

/* Rows of a panel as columns: out(j, i) = panel(i, j), with zeros for the columns that `panel` has no rows for. */
static void transpose(const float *panel, long rows, float *out, long width) {
    for (long i = 0; i < width; i++)
        for (long j = 0; j < PANEL; j++) out[j * width + i] = i < rows ? panel[i * PANEL + j] : 0.0f;
}

/* Write the embeddings of the characters at step t into the first layer's input. */
static void embed(const Space *s, const int64_t *x, long t) {
    float *input = at_step(s->layers[0].inputs, t) + PANEL;
    for (long j = 0; j < s->windows; j++)
        for (long e = 0; e < s->E; e++)
            input[e * PANEL + j] = s->embedding[x[(s->first + j) * s->T + t] * s->E + e];
}

/* Add the derivatives by the first layer's input at step t to those of the characters' embeddings. */
static void add_to_embedding(const Space *s, const int64_t *x, long t) {
    const float *d = s->layers[0].dinput;
    for (long j = 0; j < s->windows; j++)
        for (long e = 0; e < s->E; e++)
            s->dembedding[x[(s->first + j) * s->T + t] * s->E + e] += d[e * PANEL + j];
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

static Steps take_steps(Memory *memory, long slots, long rows) {
    Steps a = {0, slots, rows * PANEL};
    a.at = take(memory, slots * a.size);
    return a;
}

/* Fill in where everything is, from `base` on; returns how many floats that takes. keep: whether every step has its own
   memory, which the gradient needs; else steps share it. */
static long lay_out(Space *s, const long *sizes, Layer *layers, int keep, float *base) {
    Memory next = {base, 0};
    s->V = sizes[0], s->E = sizes[1], s->H = sizes[2], s->L = sizes[3], s->B = sizes[4], s->T = sizes[5];
    s->layers = layers;
    const long H = s->H;
    long widest = up(1 + H, 16);
    for (long l = 0; l < s->L; l++) {
        Layer *a = &layers[l];
        a->in = l ? H : s->E, a->width = 1 + a->in + H, a->dwidth = up(a->width, 16);
        a->inputs = take_steps(&next, keep ? s->T + 1 : 2, a->width);
        a->c = take_steps(&next, keep ? s->T + 1 : 1, H);
        a->gates = take_steps(&next, keep ? s->T : 1, 4 * H);
        a->weight = take(&next, up(4 * H, BLOCK) * a->width);
        if (!keep) continue;
        a->dinput = take(&next, up(a->in + H, 4) * PANEL);
        a->dc = take(&next, H * PANEL);
        a->weight_t = take(&next, up(a->in + H, BLOCK) * 4 * H);
        a->dweight = take(&next, 4 * H * a->dwidth);
        if (a->dwidth > widest) widest = a->dwidth;
    }
    s->output_width = up(1 + H, 16);
    s->top = take(&next, (1 + H) * PANEL);
    s->scores = take(&next, up(s->V, 4) * PANEL);
    s->output = take(&next, up(s->V, BLOCK) * (1 + H));
    if (keep) {
        s->dtop = take(&next, up(H, 4) * PANEL);
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

static void set_ones(float *row) {
    for (int j = 0; j < PANEL; j++) row[j] = 1.0f;
}

/* Turn to the panel that starts at window `first`: states before the first step, the ones of the inputs. */
static void start_panel(Space *s, long first, int keep) {
    s->first = first, s->windows = least(s->B - first, PANEL), s->columns = up(s->windows, 16);
    for (long l = 0; l < s->L; l++) {
        Layer *a = &s->layers[l];
        /* Columns that no window fills stay zero. */
        zero(a->inputs.at, l ? a->inputs.size : a->inputs.slots * a->inputs.size);
        for (long t = 0; t < a->inputs.slots; t++) set_ones(at_step(a->inputs, t));
        zero(a->c.at, a->c.size);
        if (!keep) continue;
        zero(a->dinput, up(a->in + s->H, 4) * PANEL);
        zero(a->dc, s->H * PANEL);
    }
    set_ones(s->top);
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

/* The sum of the panel's cross-entropies; its scores become e^(score - largest), whose sums are returned. */
static double cross_entropies(const Space *s, const int64_t *y, float *sum) {
    float largest[PANEL], of_y[PANEL];
    double loss = 0;
    for (long j = 0; j < s->windows; j++) of_y[j] = s->scores[y[s->first + j] * PANEL + j];
    CALL(softmax, s->V, s->scores, largest, sum);
    for (long j = 0; j < s->windows; j++)
        loss += sum[j] >= 1.0f ? logarithm(sum[j]) + ((double)largest[j] - (double)of_y[j]) : (double)NAN;
    return loss;
}

/* The panel's scores become the derivatives by them, (softmax - one-hot(y)) / B; zero in columns that are no windows. */
static void differentiate_scores(const Space *s, const int64_t *y, const float *sum) {
    for (long v = 0; v < up(s->V, 4); v++)
        for (long j = 0; j < PANEL; j++) {
            float *d = &s->scores[v * PANEL + j];
            *d = v < s->V && j < s->windows ? *d / (sum[j] * (float)s->B) : 0.0f;
        }
    for (long j = 0; j < s->windows; j++) s->scores[y[s->first + j] * PANEL + j] -= 1.0f / (float)s->B;
}

/* Copy the derivatives by the weights to `grad`, which stands as theta does. */
static void give_gradient(const Space *s, float *grad) {
    const long H = s->H, V = s->V;
    grad += V * s->E;
    for (long l = 0; l < s->L; l++) {
        const Layer *a = &s->layers[l];
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
}

/* The mean cross-entropy of B windows x of T characters, followed by y, and its gradient, which stands as theta does.
   sizes: V, E, H, L, B, T. Returns 1 if a character is not in 0..V-1, else 0. */
int fedmpi_lstm_gradient(const long *sizes, const float *theta, const int64_t *x, const int64_t *y, float *grad,
                         float *memory, double *loss) {
    Space space, *s = &space;
    Layer layers[sizes[3]];
    lay_out(s, sizes, layers, 1, memory);
    if (is_outside(x, s->B * s->T, s->V) || is_outside(y, s->B, s->V)) return 1;
    take_theta(s, theta, 1);
    s->dembedding = grad;
    zero(grad, s->V * s->E);
    for (long l = 0; l < s->L; l++) zero(layers[l].dweight, 4 * s->H * layers[l].dwidth);
    zero(s->doutput, up(s->V, 4) * s->output_width);
    *loss = 0;
    for (long first = 0; first < s->B; first += PANEL) {
        float sum[PANEL];
        start_panel(s, first, 1);
        CALL(forward, s, x);
        *loss += cross_entropies(s, y, sum);
        differentiate_scores(s, y, sum);
        CALL(backward, s, x);
    }
    *loss /= (double)s->B;
    give_gradient(s, grad);
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
    *loss = *correct = 0;
    for (long first = 0; first < s->B; first += PANEL) {
        float sum[PANEL];
        start_panel(s, first, 0);
        CALL(forward, s, x);
        for (long j = 0; j < s->windows; j++) {
            long best = 0;
            for (long v = 1; v < s->V; v++)
                if (s->scores[v * PANEL + j] > s->scores[best * PANEL + j]) best = v;
            *correct += best == y[first + j];
        }
        *loss += cross_entropies(s, y, sum);
    }
    return 0;
}
