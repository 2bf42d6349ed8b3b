/* Matrix products C = A B and C += A B of one kernel.

   Each element of C is one chain of fused multiply-adds over k in ascending order, so that the size of a tile, which
   differs from kernel to kernel, does not change a bit. Vectors run along the columns of B, which are independent of each
   other. */

/* A tile of `rows` x `vectors` of C stays in registers while k runs; a(i, k) is a[i a_row + k a_k]. Rows, vectors and the
   strides of A are constants wherever this is called, so that all loops but that over k are unrolled. */
ALWAYS_INLINE void NAME(tile)(int rows, int vectors, long a_row, long a_k, long K, const float *a, const float *b,
                              long b_row, float *c, long c_row, int add) {
    VECTOR sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = add ? LOAD(c + i * c_row + j * LANES) : ALL(0.0f);
    for (long k = 0; k < K; k++) {
        VECTOR row[TILE_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++) row[j] = LOAD(b + k * b_row + j * LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            VECTOR x = ALL(a[i * a_row + k * a_k]);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = FMA(x, row[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) STORE(c + i * c_row + j * LANES, sum[i][j]);
}

/* The same for BLOCK = 12, or for 8 or 4 rows, in as few tiles as the registers allow; columns: a multiple of 16. */
ALWAYS_INLINE void NAME(block)(long rows, long columns, long a_row, long a_k, long K, const float *a, const float *b,
                               long b_row, float *c, long c_row, int add) {
#define TILE(rows, vectors) \
    NAME(tile)(rows, vectors, a_row, a_k, K, a + i * a_row, b + j, b_row, c + i * c_row + j, c_row, add)
    const long width = TILE_VECTORS * LANES;
    long i, j;
    for (j = 0; j + width <= columns; j += width) {
        i = 0;
        if (TILE_ROWS == 12 && rows == 12) TILE(TILE_ROWS, TILE_VECTORS), i = 12;
        if (TILE_ROWS == 12 && rows == 8) TILE(TILE_ROWS * 2 / 3, TILE_VECTORS), i = 8;
        if (TILE_ROWS == 6 && rows == 12) for (; i < 12; i += 6) TILE(TILE_ROWS, TILE_VECTORS);
        for (; i < rows; i += 4) TILE(4, TILE_VECTORS);
    }
    for (; j < columns; j += LANES) { /* the 16 columns that are left if a tile has 32 */
        i = 0;
        if (rows == 12) for (; i < 12; i += TILE_ROWS) TILE(TILE_ROWS, 1);
        for (; i < rows; i += 4) TILE(4, 1);
    }
#undef TILE
}

/* C = A B for one panel of `columns` columns of B and C; A is packed, BLOCK rows at a time, and has a multiple of 4 rows. */
static void NAME(multiply)(long rows, long columns, long K, const float *a, const float *b, float *c) {
    for (long i = 0; i < rows; i += BLOCK)
        NAME(block)(least(rows - i, BLOCK), columns, 1, BLOCK, K, a + i * K, b, PANEL, c + i * PANEL, PANEL, 0);
}

/* C += D X, where D is `rows` rows (a multiple of 4) of a panel, of which `K` columns count, and X has K rows of `width`. */
static void NAME(add_product)(long rows, long width, long K, const float *d, const float *x, float *c) {
    for (long j = 0; j < width; j += PANEL)
        for (long i = 0; i < rows; i += BLOCK)
            NAME(block)(least(rows - i, BLOCK), least(width - j, PANEL), PANEL, 1, K, d + i * PANEL, x + j, width,
                        c + i * width + j, width, 1);
}

/* Floating-point operations of `turns` turns of independent fused multiply-adds: what a core can do at most. */
static double NAME(peak)(long turns) {
    VECTOR sum[12], x = ALL(0.999f), y = ALL(0.001f);
    UNROLL for (int i = 0; i < 12; i++) sum[i] = ALL((float)i);
    for (long k = 0; k < turns; k++) UNROLL for (int i = 0; i < 12; i++) sum[i] = FMA(sum[i], x, y);
    float all[12 * LANES], total = 0;
    for (int i = 0; i < 12; i++) STORE(all + i * LANES, sum[i]);
    for (int i = 0; i < 12 * LANES; i++) total += all[i];
    return total < 0 ? 0.0 : 2.0 * 12 * LANES * turns; /* the sums are used, so that they are computed */
}
