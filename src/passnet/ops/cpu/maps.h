/* The recurrent matrices of a block of rows, forwards and transposed. */

INLINE const REAL *NAME(gate_summary)(const plan *p, const block *k, const group *of, int gate) {
    return k->summaries + of->summary + (p->call->tied ? 0 : (gate - of->first) * p->d);
}

/* The vector that each gate of a group reads. */
TARGET static void NAME(read)(const plan *p, block *k, const group *of, REAL *state) {
    const REAL *mask = NAME(mask_of)(p, k, of->first);
    REAL *x = state;
    if (mask) {
        x = k->vectors[of->first];
        for (int64_t r = 0; r < k->rows; r++)
            for (int64_t i = r * p->row; i < r * p->row + p->n; i += LANES)
                NAME(store)(x + i, NAME(load)(state + i) * NAME(load)(mask + i));
    }
    for (int g = of->first; g < of->first + of->count; g++) k->vectors[g] = x;
}

/* Numbers [first, stop) of that vector's projection, by a factor as it is stored. */
TARGET static void NAME(project)(const plan *p, const block *k, const group *of, int64_t first,
                                 int64_t stop) {
    int64_t at = (p->call->tied ? 0 : of->first * p->d) + first;
    const REAL *factor = (const REAL *)p->call->project + at * p->n;
    const REAL *x = k->vectors[of->first];
    REAL *z = k->summaries + of->summary + first;
    for (int64_t r = 0; r < k->rows; r++)
        NAME(dots)(x + r * p->row, factor, p->n, stop - first, z + r * p->summary_row);
}

/* The vector that each gate of a group reads, and its projection to d numbers. */
TARGET static void NAME(enter)(const plan *p, block *k, const group *of, REAL *state) {
    NAME(read)(p, k, of, state);
    if (!p->d) return;
    if (p->direct)
        NAME(project)(p, k, of, 0, NAME(group_width)(p, of));
    else
        NAME(multiply)(k->rows, k->vectors[of->first], p->row, &of->narrow, 0, of->narrow.panels,
                       k->summaries + of->summary, p->summary_row, 0);
}

/* Units [unit, unit + WIDTH) of a gate's product, without the diagonal, into k->out. */
TARGET static void NAME(leave)(const plan *p, block *k, const group *of, int gate, int64_t unit) {
    int64_t left = p->n - unit, count = left < WIDTH ? left : WIDTH;
    const REAL *from = p->d ? NAME(gate_summary)(p, k, of, gate) : k->vectors[gate];
    int64_t row = p->d ? p->summary_row : p->row;
    if (!p->direct) {
        NAME(multiply)(k->rows, from, row, &p->wide[gate], unit / LANES, NAME(panels_for)(count),
                       k->out[gate], WIDTH, 0);
        return;
    }
    int64_t depth = p->d ? p->d : p->n;
    const REAL *left_factor = (const REAL *)p->call->expand + (gate * p->n + unit) * depth;
    for (int64_t r = 0; r < k->rows; r++)
        NAME(dots)(from + r * row, left_factor, depth, count, k->out[gate] + r * WIDTH);
}

/* What the inputs of step t give to units [unit, unit + WIDTH) of some gates, into k->driven. */
TARGET static void NAME(drive)(const plan *p, block *k, int64_t t, int first_gate, int last_gate,
                               int64_t unit) {
    if (!p->forms_drive || p->table) return;
    int64_t m = p->call->width, left = p->n - unit, count = left < WIDTH ? left : WIDTH;
    int64_t first = t * p->batch + k->first;
    const REAL *x = p->call->input ? (const REAL *)p->call->input + first * m : NULL;
    for (int g = first_gate; g < last_gate; g++) {
        if (!p->direct) {
            NAME(multiply)(k->rows, x, m, &p->input[g], unit / LANES, NAME(panels_for)(count),
                           k->driven[g], WIDTH, 0);
            continue;
        }
        const REAL *weight = (const REAL *)p->call->weight + (g * p->n + unit) * m;
        for (int64_t r = 0; r < k->rows; r++) {
            REAL *to = k->driven[g] + r * WIDTH;
            if (x)
                NAME(dots)(x + r * m, weight, m, count, to);
            else
                for (int64_t i = 0; i < count; i++)
                    to[i] = weight[i * m + p->call->symbols[first + r]];
        }
    }
}

/* A caller's [gates][n] numbers at one vector of units. */
INLINE vec NAME(gate_row)(const plan *p, const void *numbers, int gate, int64_t unit) {
    return NAME(load_some)((const REAL *)numbers + gate * p->n + unit, p->n - unit);
}

/* What drives a gate at one vector of units, whoever formed it. */
INLINE vec NAME(drive_at)(const plan *p, const block *k, int gate, int64_t t, int64_t r,
                          int64_t unit, int64_t within, int64_t count) {
    const scan_call *call = p->call;
    if (!p->forms_drive) {
        const REAL *from = (const REAL *)call->drive + gate * p->steps * p->batch * p->n +
                           NAME(place)(p, k, t, r, unit);
        /* The next few vectors; a block's rows lie too far apart for the hardware to guess. */
        __builtin_prefetch(from + 2 * WIDTH);
        return NAME(load_some)(from, count);
    }
    if (p->table) {
        int64_t symbol = call->symbols[t * p->batch + k->first + r];
        return NAME(load)(p->table + (gate * call->width + symbol) * p->row + unit);
    }
    vec found = NAME(load)(k->driven[gate] + r * WIDTH + within);
    return call->bias ? found + NAME(gate_row)(p, call->bias, gate, unit) : found;
}

/* One gate's whole product at one vector of units: what `leave` found plus the diagonal. */
INLINE vec NAME(product_at)(const plan *p, const block *k, int gate, int64_t r, int64_t unit,
                            int64_t within) {
    vec found = NAME(load)(k->out[gate] + r * WIDTH + within);
    if (!p->call->diagonal) return found;
    vec x = NAME(load)(k->vectors[gate] + r * p->row + unit);
    return found + x * NAME(gate_row)(p, p->call->diagonal, gate, unit);
}

/* What `enter` or `enter_back` just found for some groups, to the caller. Products come in whole
 * vectors: those of one group may write over the beginning of the next one's. */
TARGET static void NAME(keep_summaries)(const plan *p, const block *k, int64_t t, int first_group,
                                        int last_group) {
    if (!p->call->summaries || first_group == last_group) return;
    int64_t from = p->groups[first_group].summary;
    int64_t stop = last_group < p->group_count ? p->groups[last_group].summary : p->summary_count;
    REAL *to = (REAL *)p->call->summaries + (t * p->batch + k->first) * p->summary_count;
    for (int64_t r = 0; r < k->rows; r++)
        memcpy(to + r * p->summary_count + from, k->summaries + r * p->summary_row + from,
               (size_t)(stop - from) * sizeof(REAL));
}

/* Backwards, the gradients k->vectors of a group's products into d numbers for each gate. */
TARGET static void NAME(enter_back)(const plan *p, block *k, const group *of) {
    if (!p->d) return;
    for (int g = of->first; g < of->first + of->count; g++) {
        REAL *z = k->summaries + of->summary + (p->call->tied ? 0 : (g - of->first) * p->d);
        NAME(multiply)(k->rows, k->vectors[g], p->row, &p->narrow[g], 0, p->narrow[g].panels, z,
                       p->summary_row, p->call->tied && g > of->first);
    }
}

/* Units [unit, unit + WIDTH) of the group's part of the state's gradient, into k->out[first]. */
TARGET static void NAME(leave_back)(const plan *p, block *k, const group *of, int64_t unit) {
    int64_t left = p->n - unit, count = left < WIDTH ? left : WIDTH;
    int64_t first = unit / LANES, panels = NAME(panels_for)(count);
    REAL *to = k->out[of->first];
    if (p->d) {
        NAME(multiply)(k->rows, k->summaries + of->summary, p->summary_row, &of->wide, first,
                       panels, to, WIDTH, 0);
        return;
    }
    for (int g = of->first; g < of->first + of->count; g++)
        NAME(multiply)(k->rows, k->vectors[g], p->row, &p->wide[g], first, panels, to, WIDTH,
                       g > of->first);
}

/* The group's part of the state's gradient at one vector of units. */
INLINE vec NAME(gradient_at)(const plan *p, const block *k, const group *of, int64_t r,
                             int64_t unit, int64_t within) {
    vec found = NAME(load)(k->out[of->first] + r * WIDTH + within);
    int64_t at = r * p->row + unit;
    if (p->call->diagonal)
        for (int g = of->first; g < of->first + of->count; g++)
            found += NAME(load)(k->vectors[g] + at) * NAME(gate_row)(p, p->call->diagonal, g, unit);
    const REAL *mask = NAME(mask_of)(p, k, of->first);
    return mask ? found * NAME(load)(mask + at) : found;
}

#define EACH_VECTOR(unit, within, r)                                                             \
    for (int64_t unit##_stop = unit + WIDTH < p->n ? unit + WIDTH : p->n, r = 0; r < k->rows; r++) \
        for (int64_t within = 0; unit + within < unit##_stop; within += LANES)

/* k->carried += the gradient that came back through these groups. */
TARGET static void NAME(carry_back)(const plan *p, block *k, int first_group, int last_group) {
    for (int i = first_group; i < last_group; i++) NAME(enter_back)(p, k, &p->groups[i]);
    for (int64_t unit = 0; unit < p->n; unit += WIDTH) {
        for (int i = first_group; i < last_group; i++)
            NAME(leave_back)(p, k, &p->groups[i], unit);
        EACH_VECTOR(unit, within, r) {
            REAL *to = k->carried + r * p->row + unit + within;
            vec sum = NAME(load)(to);
            for (int i = first_group; i < last_group; i++)
                sum += NAME(gradient_at)(p, k, &p->groups[i], r, unit + within, within);
            NAME(store)(to, sum);
        }
    }
}
