/* The GRU over time for one block of sequences. Slots of `kept`: reset, carry, candidate, inner. */

INLINE vec NAME(gru_next)(const plan *p, const block *k, int64_t t, int64_t r, int64_t unit,
                          int64_t count, vec h, vec carry, vec candidate) {
    vec next = candidate * (1 - carry) + h * carry;
    if (p->call->hold_width) {
        vec hold = NAME(hold_at)(p->call->hold, p->call->hold_width, p, k, t, r, unit, count);
        next = next * (1 - hold) + h * hold;
    }
    NAME(store)(k->next + r * p->row + unit, next);
    NAME(store_some)((REAL *)p->call->states + NAME(place)(p, k, t, r, unit), next, count);
    return next;
}

/* Units [first, stop) of a step, once all gates have entered. */
TARGET static void NAME(gru_after)(const plan *p, block *k, int64_t t, int64_t first,
                                   int64_t stop) {
    int64_t slot = p->steps * p->batch * p->n;
    REAL *kept = p->call->kept;
    for (int64_t unit = first; unit < stop; unit += WIDTH) {
        for (int i = 0, g = 0; g < 3; g++) {
            i += g == p->groups[i].first + p->groups[i].count;
            NAME(leave)(p, k, &p->groups[i], g, unit);
        }
        NAME(drive)(p, k, t, 0, 3, unit);
        EACH_VECTOR(unit, within, r) {
            int64_t u = unit + within, count = p->n - u, at = NAME(place)(p, k, t, r, u);
            vec h = NAME(load)(k->state + r * p->row + u);
            vec reset = NAME(sigmoid)(NAME(drive_at)(p, k, 0, t, r, u, within, count) +
                                      NAME(product_at)(p, k, 0, r, u, within));
            vec carry = NAME(sigmoid)(NAME(drive_at)(p, k, 1, t, r, u, within, count) +
                                      NAME(product_at)(p, k, 1, r, u, within));
            vec inner = NAME(product_at)(p, k, 2, r, u, within);
            if (p->call->inner_bias) inner += NAME(gate_row)(p, p->call->inner_bias, 0, u);
            vec candidate =
                NAME(tanh)(NAME(drive_at)(p, k, 2, t, r, u, within, count) + reset * inner);
            if (kept) {
                NAME(store_some)(kept + at, reset, count);
                NAME(store_some)(kept + slot + at, carry, count);
                NAME(store_some)(kept + 2 * slot + at, candidate, count);
                NAME(store_some)(kept + 3 * slot + at, inner, count);
            }
            NAME(gru_next)(p, k, t, r, u, count, h, carry, candidate);
        }
    }
}

/* Reset and carry, and what the candidate's matrix then reads: k->carried. */
TARGET static void NAME(gru_opening)(const plan *p, block *k, int64_t t, int64_t first,
                                     int64_t stop) {
    int64_t slot = p->steps * p->batch * p->n;
    REAL *kept = p->call->kept;
    for (int64_t unit = first; unit < stop; unit += WIDTH) {
        NAME(leave)(p, k, &p->groups[0], 0, unit);
        NAME(leave)(p, k, &p->groups[p->group_count - 2], 1, unit);
        NAME(drive)(p, k, t, 0, 2, unit);
        EACH_VECTOR(unit, within, r) {
            int64_t u = unit + within, count = p->n - u, at = NAME(place)(p, k, t, r, u);
            vec reset = NAME(sigmoid)(NAME(drive_at)(p, k, 0, t, r, u, within, count) +
                                      NAME(product_at)(p, k, 0, r, u, within));
            vec carry = NAME(sigmoid)(NAME(drive_at)(p, k, 1, t, r, u, within, count) +
                                      NAME(product_at)(p, k, 1, r, u, within));
            if (kept) {
                NAME(store_some)(kept + at, reset, count);
                NAME(store_some)(kept + slot + at, carry, count);
            }
            REAL *h = k->state + r * p->row + u;
            NAME(store)(k->carried + r * p->row + u, reset * NAME(load)(h));
            NAME(store)(k->cell + r * p->row + u, carry);
        }
    }
}

TARGET static void NAME(gru_closing)(const plan *p, block *k, int64_t t, int64_t first,
                                     int64_t stop) {
    int64_t slot = p->steps * p->batch * p->n;
    REAL *kept = p->call->kept;
    for (int64_t unit = first; unit < stop; unit += WIDTH) {
        NAME(leave)(p, k, &p->groups[p->group_count - 1], 2, unit);
        NAME(drive)(p, k, t, 2, 3, unit);
        EACH_VECTOR(unit, within, r) {
            int64_t u = unit + within, count = p->n - u, at = NAME(place)(p, k, t, r, u);
            vec candidate = NAME(tanh)(NAME(drive_at)(p, k, 2, t, r, u, within, count) +
                                       NAME(product_at)(p, k, 2, r, u, within));
            if (kept) NAME(store_some)(kept + 2 * slot + at, candidate, count);
            NAME(gru_next)(p, k, t, r, u, count, NAME(load)(k->state + r * p->row + u),
                           NAME(load)(k->cell + r * p->row + u), candidate);
        }
    }
}

TARGET static void NAME(gru_forward)(const plan *p, block *k) {
    NAME(copy_in)(p, k, p->call->initial, k->state);
    NAME(copy_masks)(p, k);
    int last = p->group_count - 1;
    for (int64_t t = 0; t < p->steps; t++) {
        for (int i = 0; i < last; i++) NAME(enter)(p, k, &p->groups[i], k->state);
        if (p->call->cell == GRU_AFTER) {
            NAME(enter)(p, k, &p->groups[last], k->state);
            NAME(gru_after)(p, k, t, 0, p->n);
        } else {
            NAME(gru_opening)(p, k, t, 0, p->n);
            NAME(enter)(p, k, &p->groups[last], k->carried);
            NAME(gru_closing)(p, k, t, 0, p->n);
        }
        NAME(keep_summaries)(p, k, t, 0, p->group_count);
        REAL *old = k->state;
        k->state = k->next;
        k->next = old;
    }
}

INLINE const REAL *NAME(state_before)(const plan *p, const block *k, int64_t t, int64_t r,
                                      const void *initial, const void *states) {
    if (t) return (const REAL *)states + NAME(place)(p, k, t - 1, r, 0);
    return (const REAL *)initial + (k->first + r) * p->n;
}

/* The part of a step backwards that needs no matrix: gradients of carry and candidate (and reset
 * where it stands after the matrix), and what flows straight to the state before. All that was kept
 * of a unit is read before its gradients are written, which may lie there, behind the reset gate. */
TARGET static void NAME(gru_slopes)(const plan *p, block *k, int64_t t) {
    int64_t slot = p->steps * p->batch * p->n;
    int after = p->call->cell == GRU_AFTER;
    const REAL *kept = p->call->kept, *arriving = p->call->grad_states;
    REAL *grad_drive = p->call->grad_drive;
    for (int64_t r = 0; r < k->rows; r++) {
        const REAL *before =
            NAME(state_before)(p, k, t, r, p->call->initial, p->call->states);
        for (int64_t u = 0; u < p->n; u += LANES) {
            int64_t count = p->n - u, at = NAME(place)(p, k, t, r, u), here = r * p->row + u;
            vec grad = NAME(load)(k->carried + here) + NAME(load_some)(arriving + at, count);
            vec carry = NAME(load_some)(kept + slot + at, count);
            vec candidate = NAME(load_some)(kept + 2 * slot + at, count);
            vec reset = {0}, inner = {0};
            if (after) {
                reset = NAME(load_some)(kept + at, count);
                inner = NAME(load_some)(kept + 3 * slot + at, count);
            }
            vec let_in = grad, straight = grad * carry;
            if (p->call->hold_width) {
                vec hold = NAME(hold_at)(p->call->hold, p->call->hold_width, p, k, t, r, u, count);
                let_in = grad * (1 - hold);
                straight = hold * grad + let_in * carry;
            }
            NAME(store)(k->carried + here, straight);
            vec h = NAME(load_some)(before + u, count);
            vec opened = let_in * (1 - carry);
            vec to_carry = opened * carry * (h - candidate);
            vec to_candidate = opened * (1 - candidate * candidate);
            NAME(store_some)(grad_drive + slot + at, to_carry, count);
            NAME(store_some)(grad_drive + 2 * slot + at, to_candidate, count);
            NAME(store)(k->vectors[1] + here, to_carry);
            if (!after) {
                NAME(store)(k->vectors[2] + here, to_candidate);
                continue;
            }
            vec behind = to_candidate * reset;
            vec to_reset = behind * (1 - reset) * inner;
            NAME(store_some)(grad_drive + at, to_reset, count);
            NAME(store)(k->vectors[0] + here, to_reset);
            NAME(store)(k->vectors[2] + here, behind);
        }
    }
}

/* Reset-before: back through the candidate's matrix to r h, and from there to both. */
TARGET static void NAME(gru_through_reset)(const plan *p, block *k, int64_t t) {
    const group *of = &p->groups[p->group_count - 1];
    const REAL *kept = p->call->kept;
    REAL *grad_drive = p->call->grad_drive;
    NAME(enter_back)(p, k, of);
    for (int64_t unit = 0; unit < p->n; unit += WIDTH) {
        NAME(leave_back)(p, k, of, unit);
        EACH_VECTOR(unit, within, r) {
            int64_t u = unit + within, count = p->n - u, at = NAME(place)(p, k, t, r, u);
            int64_t here = r * p->row + u;
            const REAL *before =
                NAME(state_before)(p, k, t, r, p->call->initial, p->call->states);
            vec gated = NAME(gradient_at)(p, k, of, r, u, within);
            vec reset = NAME(load_some)(kept + at, count);
            vec through = gated * reset;
            vec to_reset = through * (1 - reset) * NAME(load_some)(before + u, count);
            NAME(store_some)(grad_drive + at, to_reset, count);
            NAME(store)(k->vectors[0] + here, to_reset);
            NAME(store)(k->carried + here, NAME(load)(k->carried + here) + through);
        }
    }
}

TARGET static void NAME(gru_backward)(const plan *p, block *k) {
    int after = p->call->cell == GRU_AFTER;
    /* Reset-before: the candidate's group goes back first, by itself. */
    int together = after ? p->group_count : p->group_count - 1;
    memset(k->carried, 0, (size_t)(k->rows * p->row) * sizeof(REAL));
    NAME(copy_masks)(p, k);
    for (int64_t t = p->steps - 1; t >= 0; t--) {
        NAME(gru_slopes)(p, k, t);
        if (!after) NAME(gru_through_reset)(p, k, t);
        NAME(keep_summaries)(p, k, t, together, p->group_count);
        NAME(carry_back)(p, k, 0, together);
        NAME(keep_summaries)(p, k, t, 0, together);
    }
    NAME(copy_out)(p, k, k->carried, p->call->grad_initial);
}
