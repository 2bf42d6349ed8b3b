/* The LSTM of one kernel: forward in time, softmax, backward in time. lstm.c has the layout of its memory.

   Vectors run along the batch. The input of a layer at a step is [1 | x | h]: x is the embedding, or the h of the layer
   below at this step, and h the layer's own of the step before. Its weights are [b | W_x | W_h], so that the biases and
   their gradient are part of the products. */

/* x within -most..most; NaN stays NaN, so that a run that diverges is seen to. */
ALWAYS_INLINE VECTOR NAME(within)(VECTOR x, float most) { return MAX(ALL(-most), MIN(ALL(most), x)); }

/* e^x - 1 = s p + (s - 1) with s = 2^n and p = e^r - 1, where x = n ln 2 + r and |r| <= ln 2 / 2. For |x| <= 80. */
ALWAYS_INLINE VECTOR NAME(exp_less_1)(VECTOR x, VECTOR *s) {
    const VECTOR rounder = ALL(12582912.0f); /* 3 * 2^22: adding it leaves the nearest integer in the last bits */
    VECTOR rounded = FMA(x, ALL(1.44269504f), rounder);
    VECTOR n = SUB(rounded, rounder);
    VECTOR r = FMA(n, ALL(-1.42860677e-6f), FMA(n, ALL(-0.693145752f), x)); /* ln 2 in two parts */
    VECTOR p = FMA(ALL(1.0f / 5040), r, ALL(1.0f / 720));
    p = FMA(p, r, ALL(1.0f / 120));
    p = FMA(p, r, ALL(1.0f / 24));
    p = FMA(p, r, ALL(1.0f / 6));
    p = FMA(p, r, ALL(1.0f / 2));
    *s = POWER_OF_2(rounded);
    return FMA(MUL(p, r), r, r);
}

/* 1 / sigmoid(x), at most e^40. */
ALWAYS_INLINE VECTOR NAME(one_over_sigmoid)(VECTOR x) {
    VECTOR s, p = NAME(exp_less_1)(SUB(ALL(0.0f), NAME(within)(x, 40.0f)), &s);
    return FMA(s, p, ADD(s, ALL(1.0f)));
}

/* e^2x - 1, which is small where x is: tanh x = (e^2x - 1) / (e^2x + 1). */
ALWAYS_INLINE VECTOR NAME(exp_2x_less_1)(VECTOR x) {
    VECTOR s, p = NAME(exp_less_1)(NAME(within)(ADD(x, x), 40.0f), &s);
    return FMA(s, p, SUB(s, ALL(1.0f)));
}

ALWAYS_INLINE VECTOR NAME(tanh)(VECTOR x) {
    VECTOR e = NAME(exp_2x_less_1)(x);
    return DIV(e, ADD(e, ALL(2.0f)));
}

/* The sums of the gates i, f, g, o of each unit, four rows of a panel, become the gates, where i, f, o are sigmoids and g
   a tanh. c' = f c + i g, which may overwrite c; h = o tanh c', which goes to two places. */
static void NAME(gates)(long units, long columns, float *gate, const float *c, float *c_next, float *h, float *above) {
    for (long u = 0; u < units; u++) {
        for (long j = 0; j < columns; j += LANES) {
            VECTOR over_i = NAME(one_over_sigmoid)(LOAD(gate + j));
            VECTOR over_f = NAME(one_over_sigmoid)(LOAD(gate + PANEL + j));
            VECTOR e = NAME(exp_2x_less_1)(LOAD(gate + 2 * PANEL + j)), e2 = ADD(e, ALL(2.0f));
            VECTOR over_o = NAME(one_over_sigmoid)(LOAD(gate + 3 * PANEL + j));
            /* Two quotients from one division, which is what costs most here. */
            VECTOR over_if = DIV(ALL(1.0f), MUL(over_i, over_f)), over_go = DIV(ALL(1.0f), MUL(e2, over_o));
            VECTOR i = MUL(over_f, over_if), f = MUL(over_i, over_if);
            VECTOR g = MUL(MUL(e, over_o), over_go), o = MUL(e2, over_go);
            VECTOR cell = FMA(f, LOAD(c + j), MUL(i, g));
            VECTOR out = MUL(o, NAME(tanh)(cell));
            STORE(gate + j, i);
            STORE(gate + PANEL + j, f);
            STORE(gate + 2 * PANEL + j, g);
            STORE(gate + 3 * PANEL + j, o);
            STORE(c_next + j, cell);
            STORE(h + j, out);
            STORE(above + j, out);
        }
        gate += 4 * PANEL, c += PANEL, c_next += PANEL, h += PANEL, above += PANEL;
    }
}

/* The derivatives by the sums of the gates, from the gates, c, c' and the derivative by h, which comes from two places.
   The derivative by c', in dc, becomes that by c. */
static void NAME(gates_backward)(long units, long columns, const float *gate, const float *c, const float *c_next,
                                 const float *dh, const float *above, float *dc, float *dgate) {
    const VECTOR one = ALL(1.0f);
    for (long u = 0; u < units; u++) {
        for (long j = 0; j < columns; j += LANES) {
            VECTOR i = LOAD(gate + j), f = LOAD(gate + PANEL + j);
            VECTOR g = LOAD(gate + 2 * PANEL + j), o = LOAD(gate + 3 * PANEL + j);
            VECTOR out = ADD(LOAD(dh + j), LOAD(above + j)), t = NAME(tanh)(LOAD(c_next + j));
            VECTOR cell = FMA(MUL(out, o), SUB(one, MUL(t, t)), LOAD(dc + j));
            STORE(dgate + j, MUL(MUL(cell, g), MUL(i, SUB(one, i))));
            STORE(dgate + PANEL + j, MUL(MUL(cell, LOAD(c + j)), MUL(f, SUB(one, f))));
            STORE(dgate + 2 * PANEL + j, MUL(MUL(cell, i), SUB(one, MUL(g, g))));
            STORE(dgate + 3 * PANEL + j, MUL(MUL(out, t), MUL(o, SUB(one, o))));
            STORE(dc + j, MUL(cell, f));
        }
        gate += 4 * PANEL, c += PANEL, c_next += PANEL, dh += PANEL, above += PANEL, dc += PANEL, dgate += 4 * PANEL;
    }
}

/* The scores of a panel's windows at the last step, in s->scores. If s keeps all steps, `backward` can follow. */
static void NAME(forward)(const Space *s, const int64_t *x) {
    for (long t = 0; t < s->T; t++) {
        embed(s, x, t);
        for (long l = 0; l < s->L; l++) {
            const Layer *a = &s->layers[l];
            const float *input = at_step(a->inputs, t);
            float *gate = at_step(a->gates, t), *c = at_step(a->c, t), *c_next = at_step(a->c, t + 1);
            float *h = at_step(a->inputs, t + 1) + (1 + a->in) * PANEL;
            float *above = PANEL + (l + 1 < s->L ? at_step(a[1].inputs, t) : s->top);
            for (long u = 0; u < s->H; u += BLOCK / 4) { /* gates follow while their sums are in the cache */
                long units = least(s->H - u, BLOCK / 4), row = u * PANEL;
                NAME(block)(4 * units, s->columns, 1, BLOCK, a->width, a->weight + 4 * u * a->width, input, PANEL,
                            gate + 4 * row, PANEL, 0);
                NAME(gates)(units, s->columns, gate + 4 * row, c + row, c_next + row, h + row, above + row);
            }
        }
    }
    NAME(multiply)(up(s->V, 4), s->columns, 1 + s->H, s->output, s->top, s->scores);
}

/* Each score of a panel becomes e^(score - largest of its column); the columns' largest scores and sums are returned. */
static void NAME(softmax)(long scores, float *score, float *largest, float *sum) {
    for (long j = 0; j < PANEL; j += LANES) {
        VECTOR most = LOAD(score + j), total = ALL(0.0f);
        for (long v = 1; v < scores; v++) most = MAX(most, LOAD(score + v * PANEL + j));
        for (long v = 0; v < scores; v++) {
            VECTOR s, p = NAME(exp_less_1)(NAME(within)(SUB(LOAD(score + v * PANEL + j), most), 80.0f), &s);
            VECTOR e = FMA(s, p, s);
            STORE(score + v * PANEL + j, e);
            total = ADD(total, e);
        }
        STORE(largest + j, most);
        STORE(sum + j, total);
    }
}

/* From the derivatives by the scores, in s->scores, to those by all weights, which are added to what is there. */
static void NAME(backward)(const Space *s, const int64_t *x) {
    NAME(multiply)(up(s->H, 4), s->columns, s->V, s->output_t, s->scores, s->dtop);
    transpose(s->top, 1 + s->H, s->transposed, s->output_width);
    NAME(add_product)(up(s->V, 4), s->output_width, s->windows, s->scores, s->transposed, s->doutput);
    for (long t = s->T - 1; t >= 0; t--) {
        for (long l = s->L - 1; l >= 0; l--) {
            const Layer *a = &s->layers[l];
            NAME(gates_backward)(s->H, s->columns, at_step(a->gates, t), at_step(a->c, t), at_step(a->c, t + 1),
                                 a->dinput + a->in * PANEL, l + 1 < s->L ? a[1].dinput : s->dtop, a->dc, s->dgates);
            NAME(multiply)(up(a->in + s->H, 4), s->columns, 4 * s->H, a->weight_t, s->dgates, a->dinput);
            transpose(at_step(a->inputs, t), a->width, s->transposed, a->dwidth);
            NAME(add_product)(4 * s->H, a->dwidth, s->windows, s->dgates, s->transposed, a->dweight);
        }
        add_to_embedding(s, x, t);
        if (t == s->T - 1) zero(s->dtop, s->H * PANEL); /* only the last step has scores */
    }
}
