/* The vectors of one kernel: KERNEL is AVX512, AVX2 or PLAIN, and this file is included once for each.

   Only operations that are correctly rounded, lane by lane, so that every kernel gives the same bits; a product and a sum
   are rounded once for both where FMA says so, and never otherwise (-ffp-contract=off). MIN and MAX return their second
   argument if either is NaN. */

#undef LANES
#undef VECTOR
#undef LOAD
#undef STORE
#undef ALL
#undef FMA
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef MIN
#undef MAX
#undef POWER_OF_2
#undef TILE_ROWS
#undef TILE_VECTORS
#undef NAME

/* POWER_OF_2(x): 2^n, where the integer n stands in the last bits of x. A tile of TILE_ROWS x TILE_VECTORS sums, with the
   vectors that they are made from, fills the registers. */
#if KERNEL == AVX512
#define LANES 16
#define VECTOR __m512
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define ALL(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define DIV(a, b) _mm512_div_ps(a, b)
#define MIN(a, b) _mm512_min_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define POWER_OF_2(x) \
    _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(x), 23), _mm512_set1_epi32(0x3f800000)))
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define NAME(f) f##_avx512
#elif KERNEL == AVX2
#define LANES 8
#define VECTOR __m256
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define ALL(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define MIN(a, b) _mm256_min_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define POWER_OF_2(x) \
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(0x3f800000)))
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define NAME(f) f##_avx2
#else
#define LANES 4
#define VECTOR plain
#define LOAD(p) plain_load(p)
#define STORE(p, x) plain_store(p, x)
#define ALL(x) plain_all(x)
#define FMA(a, b, c) plain_fma(a, b, c)
#define ADD(a, b) plain_add(a, b)
#define SUB(a, b) plain_sub(a, b)
#define MUL(a, b) plain_mul(a, b)
#define DIV(a, b) plain_div(a, b)
#define MIN(a, b) plain_min(a, b)
#define MAX(a, b) plain_max(a, b)
#define POWER_OF_2(x) plain_power_of_2(x)
#define TILE_ROWS 4
#define TILE_VECTORS 4
#define NAME(f) f##_plain

typedef struct {
    float lane[LANES];
} plain;

#define EACH_LANE(function, result)                         \
    ALWAYS_INLINE plain function {                          \
        plain r;                                            \
        for (int l = 0; l < LANES; l++) r.lane[l] = result; \
        return r;                                           \
    }

EACH_LANE(plain_load(const float *p), p[l])
EACH_LANE(plain_all(float x), x)
EACH_LANE(plain_fma(plain a, plain b, plain c), fmaf(a.lane[l], b.lane[l], c.lane[l]))
EACH_LANE(plain_add(plain a, plain b), a.lane[l] + b.lane[l])
EACH_LANE(plain_sub(plain a, plain b), a.lane[l] - b.lane[l])
EACH_LANE(plain_mul(plain a, plain b), a.lane[l] * b.lane[l])
EACH_LANE(plain_div(plain a, plain b), a.lane[l] / b.lane[l])
EACH_LANE(plain_min(plain a, plain b), a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l])
EACH_LANE(plain_max(plain a, plain b), a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l])

ALWAYS_INLINE void plain_store(float *p, plain x) {
    for (int l = 0; l < LANES; l++) p[l] = x.lane[l];
}

ALWAYS_INLINE float power_of_2(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits << 23) + 0x3f800000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

EACH_LANE(plain_power_of_2(plain x), power_of_2(x.lane[l]))
#endif
