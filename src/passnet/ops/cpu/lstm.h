/* The LSTM over time for one block of sequences. Slots of `kept`: transform, carry, candidate,
 * output, tanh of the proposed cell. */

INLINE vec NAME(held)(const void *hold, int64_t width, const plan *p, const block *k, int64_t t,
                      int64_t r, int64_t unit, int64_t count, vec old, vec proposed) {
    if (!width) return proposed;
    vec keep = NAME(hold_at)(hold, width, p, k, t, r, unit, count);
    return proposed * (1 - keep) + old * keep;
}

/* Units [first, stop) of a step, once all gates have entered. */
TARGET static void NAME(lstm_units)(const plan *p, block *k, int64_t t, int64_t first,
                                    int64_t stop) {
    const scan_call *call = p->call;
    int64_t slot = p->steps * p->batch * p->n;
    REAL *kept = call->kept;
    for (int64_t unit = first; unit < stop; unit += WIDTH) {
        for (int i = 0, g = 0; g < 4; g++) {
            i += g == p->groups[i].first + p->groups[i].count;
            NAME(leave)(p, k, &p->groups[i], g, unit);
        }
        NAME(drive)(p, k, t, 0, 4, unit);
        EACH_VECTOR(unit, within, r) {
            int64_t u = unit + within, count = p->n - u, at = NAME(place)(p, k, t, r, u);
            int64_t here = r * p->row + u;
            vec gate[4];
            UNROLL for (int g = 0; g < 4; g++) {
                vec sum = NAME(drive_at)(p, k, g, t, r, u, within, count) +
                          NAME(product_at)(p, k, g, r, u, within);
                gate[g] = g == 2 ? NAME(tanh)(sum) : NAME(sigmoid)(sum);
                if (kept) NAME(store_some)(kept + g * slot + at, gate[g], count);
            }
            vec h = NAME(load)(k->state + here), c = NAME(load)(k->cell + here);
            vec proposed = gate[2] * gate[0] + c * gate[1];
            vec read = NAME(tanh)(proposed);
            if (kept) NAME(store_some)(kept + 4 * slot + at, read, count);
            vec next = NAME(held)(call->hold, call->hold_width, p, k, t, r, u, count, h,
                                  gate[3] * read);
            vec cell = NAME(held)(call->hold_cell, call->hold_cell_width, p, k, t, r, u, count, c,
                                  proposed);
            NAME(store)(k->next + here, next);
            NAME(store)(k->cell + here, cell);
            NAME(store_some)((REAL *)call->states + at, next, count);
            NAME(store_some)((REAL *)call->cells + at, cell, count);
        }
    }
}

TARGET static void NAME(lstm_forward)(const plan *p, block *k) {
    NAME(copy_in)(p, k, p->call->initial, k->state);
    NAME(copy_in)(p, k, p->call->initial_cell, k->cell);
    NAME(copy_masks)(p, k);
    for (int64_t t = 0; t < p->steps; t++) {
        for (int i = 0; i < p->group_count; i++) NAME(enter)(p, k, &p->groups[i], k->state);
        NAME(lstm_units)(p, k, t, 0, p->n);
        NAME(keep_summaries)(p, k, t, 0, p->group_count);
        REAL *old = k->state;
        k->state = k->next;
        k->next = old;
    }
}

/* The part of a step backwards that needs no matrix. */
TARGET static void NAME(lstm_slopes)(const plan *p, block *k, int64_t t) {
    const scan_call *call = p->call;
    int64_t slot = p->steps * p->batch * p->n;
    const REAL *kept = call->kept;
    const REAL *arriving = call->grad_states, *arriving_cell = call->grad_cells;
    REAL *grad_drive = call->grad_drive;
    for (int64_t r = 0; r < k->rows; r++) {
        const REAL *before = NAME(state_before)(p, k, t, r, call->initial_cell, call->cells);
        for (int64_t u = 0; u < p->n; u += LANES) {
            int64_t count = p->n - u, at = NAME(place)(p, k, t, r, u), here = r * p->row + u;
            vec gate[5];
            UNROLL for (int g = 0; g < 5; g++)
                gate[g] = NAME(load_some)(kept + g * slot + at, count);
            vec transform = gate[0], carry = gate[1], candidate = gate[2], output = gate[3];
            vec read = gate[4];
            vec grad = NAME(load)(k->carried + here) + NAME(load_some)(arriving + at, count);
            vec grad_cell =
                NAME(load)(k->carried_cell + here) + NAME(load_some)(arriving_cell + at, count);
            vec let_in = grad, let_in_cell = grad_cell;
            vec straight = {0}, straight_cell = {0};
            if (call->hold_width) {
                straight = grad * NAME(hold_at)(call->hold, call->hold_width, p, k, t, r, u, count);
                let_in = grad - straight;
            }
            if (call->hold_cell_width) {
                straight_cell = grad_cell * NAME(hold_at)(call->hold_cell, call->hold_cell_width, p,
                                                          k, t, r, u, count);
                let_in_cell = grad_cell - straight_cell;
            }
            vec shown = let_in * output;
            vec proposed = let_in_cell + shown * (1 - read * read);
            vec entered = proposed * transform, stayed = proposed * carry;
            vec found[4] = {entered * candidate * (1 - transform),
                            stayed * (1 - carry) * NAME(load_some)(before + u, count),
                            entered * (1 - candidate * candidate), shown * read * (1 - output)};
            UNROLL for (int g = 0; g < 4; g++) {
                NAME(store_some)(grad_drive + g * slot + at, found[g], count);
                NAME(store)(k->vectors[g] + here, found[g]);
            }
            NAME(store)(k->carried + here, straight);
            NAME(store)(k->carried_cell + here, stayed + straight_cell);
        }
    }
}

TARGET static void NAME(lstm_backward)(const plan *p, block *k) {
    memset(k->carried, 0, (size_t)(k->rows * p->row) * sizeof(REAL));
    memset(k->carried_cell, 0, (size_t)(k->rows * p->row) * sizeof(REAL));
    NAME(copy_masks)(p, k);
    for (int64_t t = p->steps - 1; t >= 0; t--) {
        NAME(lstm_slopes)(p, k, t);
        NAME(carry_back)(p, k, 0, p->group_count);
        NAME(keep_summaries)(p, k, t, 0, p->group_count);
    }
    NAME(copy_out)(p, k, k->carried, p->call->grad_initial);
    NAME(copy_out)(p, k, k->carried_cell, p->call->grad_initial_cell);
}
