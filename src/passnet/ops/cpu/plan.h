/* One call prepared: which gates read the same vector, their packed factors, and scratch.
 *
 * A gate's matrix is applied in two halves: into d numbers per row ("narrow"), and from them to n
 * units a few panels at a time ("wide"). A dense matrix has only the second. Backwards the two
 * factors change places.
 */

/* Sequences that go through all steps together, and units that are finished at once. */
#define BLOCK 16
#define WIDTH (4 * LANES)

typedef struct {
    int first, count;
    packed narrow, wide; /* forward only narrow is used, backward only wide */
    int64_t summary;     /* where this group's part of a row of summaries begins */
} NAME(group);
#define group NAME(group)

typedef struct {
    const scan_call *call;
    int64_t n, d, gates, steps, batch;
    int64_t row;         /* numbers from one row of scratch to the next */
    int64_t summary_count; /* numbers that a caller keeps of a row of summaries */
    int64_t summary_row;
    int direct;          /* too few rows to pack for */
    int backward;
    int group_count;
    group groups[4];
    packed wide[4], narrow[4]; /* of single gates: forward wide, backward narrow */
    int forms_drive;           /* from inputs, forward */
    packed input[4];           /* matrices of features */
    const REAL *table;         /* of symbols: [G][m][row], with biases */
    REAL *memory;
} NAME(plan);
#define plan NAME(plan)

/* One thread's share of the scratch; each part is [rows][row] unless said. */
typedef struct {
    int64_t first, rows; /* sequences of the current block */
    REAL *state, *next, *cell, *carried, *carried_cell;
    REAL *vectors[4];  /* what enters each gate's matrix, or its gradient backwards */
    REAL *summaries;   /* [rows][summary_row] */
    REAL *out[4];      /* [rows][WIDTH] for each gate */
    REAL *driven[4];   /* likewise, by inputs */
    REAL *masks[4];
    REAL *memory;
} NAME(block);
#define block NAME(block)

TARGET static int64_t NAME(whole)(int64_t columns) { return NAME(panels_for)(columns) * LANES; }

/* Gates whose matrices read one and the same vector form a group. */
static void NAME(find_groups)(plan *p) {
    int separate = p->call->mask_count > 1;
    int opening = p->call->cell == GRU_BEFORE ? 2 : (int)p->gates;
    for (int g = 0; g < p->gates;) {
        int count = separate ? 1 : g < opening ? opening - g : (int)p->gates - g;
        p->groups[p->group_count++] = (group){.first = g, .count = count};
        g += count;
    }
}

static int64_t NAME(group_width)(const plan *p, const group *of) {
    return p->call->tied ? p->d : of->count * p->d;
}

TARGET static void NAME(pack_all)(plan *p, REAL **room) {
    const REAL *expand = p->call->expand, *project = p->call->project;
    int64_t n = p->n, d = p->d;
    for (int g = 0; g < p->gates; g++) {
        const REAL *left = expand + g * n * (d ? d : n);
        if (!d) {
            p->wide[g] = NAME(pack)(room, left, n, n, p->backward ? n : 1, p->backward ? 1 : n);
        } else if (p->backward) {
            p->narrow[g] = NAME(pack)(room, left, n, d, d, 1);
        } else {
            p->wide[g] = NAME(pack)(room, left, d, n, 1, d);
        }
    }
    for (int i = 0; d && i < p->group_count; i++) {
        group *of = &p->groups[i];
        int64_t width = NAME(group_width)(p, of);
        if (p->call->tied && i > 0) {
            of->narrow = p->groups[0].narrow;
            of->wide = p->groups[0].wide;
            continue;
        }
        const REAL *right = project + (p->call->tied ? 0 : of->first * d * n);
        if (p->backward) {
            of->wide = NAME(pack)(room, right, width, n, n, 1);
        } else {
            of->narrow = NAME(pack)(room, right, n, width, 1, n);
        }
    }
}

/* Columns of symbols side by side with their biases, for units [first, stop) of a gate. */
TARGET static void NAME(fill_table)(const plan *p, REAL *table, int gate, int64_t first,
                                    int64_t stop) {
    int64_t m = p->call->width;
    const REAL *weight = (const REAL *)p->call->weight + gate * p->n * m;
    const REAL *bias = p->call->bias ? (const REAL *)p->call->bias + gate * p->n : NULL;
    for (int64_t symbol = 0; symbol < m; symbol++) {
        REAL *to = table + (gate * m + symbol) * p->row;
        for (int64_t i = first; i < stop; i++) to[i] = weight[i * m + symbol] + (bias ? bias[i] : 0);
    }
}

TARGET static void NAME(pack_inputs)(plan *p, REAL **room) {
    int64_t n = p->n, m = p->call->width;
    const REAL *weight = p->call->weight;
    if (p->call->input) {
        for (int g = 0; g < p->gates; g++)
            p->input[g] = NAME(pack)(room, weight + g * n * m, m, n, 1, m);
        return;
    }
    REAL *table = *room;
    for (int g = 0; g < p->gates; g++)
        for (int64_t unit = 0; unit < n; unit += WIDTH)
            NAME(fill_table)(p, table, g, unit, unit + WIDTH < n ? unit + WIDTH : n);
    p->table = table;
    *room += p->gates * m * p->row;
}

/* Sizes, and where everything stands. */
TARGET static void NAME(measure)(plan *p, const scan_call *call, int backward) {
    *p = (plan){.call = call, .backward = backward};
    p->n = call->units, p->d = call->rank, p->steps = call->steps, p->batch = call->batch;
    p->gates = gates_of(call);
    /* An odd number of cache lines, so that the rows of a block do not meet in one cache set. */
    int64_t line = 64 / (int64_t)sizeof(REAL);
    p->row = (((p->n + WIDTH) / line) | 1) * line;
    p->direct = !backward && p->steps * p->batch <= DIRECT_ROWS;
    p->forms_drive = !backward && !call->drive;
    NAME(find_groups)(p);
    int64_t at = 0;
    for (int i = 0; i < p->group_count; i++) {
        p->groups[i].summary = at;
        at += NAME(group_width)(p, &p->groups[i]);
    }
    p->summary_count = at;
    p->summary_row = NAME(whole)(at) + LANES;
}

/* 0, or 1 when there is no memory for it. */
TARGET static int NAME(prepare)(plan *p, const scan_call *call, int backward) {
    NAME(measure)(p, call, backward);
    if (p->direct) return 0;
    int64_t n = p->n, d = p->d, wide = NAME(whole)(n);
    int64_t each = d ? n * NAME(whole)(d) + d * wide : n * wide;
    if (p->forms_drive) each += call->width * (call->input ? wide : p->row);
    p->memory = aligned_alloc(64, (size_t)(p->gates * each * (int64_t)sizeof(REAL) + 63) / 64 * 64);
    if (!p->memory) return 1;
    REAL *room = p->memory;
    NAME(pack_all)(p, &room);
    if (p->forms_drive) NAME(pack_inputs)(p, &room);
    return 0;
}

/* Scratch for blocks of up to `rows` sequences. */
static int NAME(take_scratch)(block *k, const plan *p, int64_t rows) {
    /* Forward and without masks the gates read the state itself. */
    int64_t vectors = p->backward || p->call->mask_count ? 4 : 0;
    int64_t parts = 5 + vectors + p->call->mask_count;
    int64_t strips = p->forms_drive ? 8 : 4;
    int64_t numbers = rows * (parts * p->row + p->summary_row + strips * WIDTH);
    size_t bytes = ((size_t)numbers * sizeof(REAL) + 63) / 64 * 64;
    k->memory = aligned_alloc(64, bytes);
    if (!k->memory) return 1;
    memset(k->memory, 0, bytes);
    REAL *room = k->memory;
    REAL **wanted[] = {&k->state, &k->next, &k->cell, &k->carried, &k->carried_cell,
                       &k->vectors[0], &k->vectors[1], &k->vectors[2], &k->vectors[3]};
    for (int64_t i = 0; i < 5 + vectors; i++, room += rows * p->row) *wanted[i] = room;
    for (int64_t i = 0; i < p->call->mask_count; i++, room += rows * p->row) k->masks[i] = room;
    for (int g = 0; g < 4; g++, room += rows * WIDTH) k->out[g] = room;
    for (int g = 0; g < strips - 4; g++, room += rows * WIDTH) k->driven[g] = room;
    k->summaries = room;
    return 0;
}

/* A caller's [batch][n] rows of this block into scratch, or back. */
static void NAME(copy_in)(const plan *p, const block *k, const void *from, REAL *to) {
    for (int64_t r = 0; r < k->rows; r++)
        memcpy(to + r * p->row, (const REAL *)from + (k->first + r) * p->n,
               (size_t)p->n * sizeof(REAL));
}

static void NAME(copy_out)(const plan *p, const block *k, const REAL *from, void *to) {
    for (int64_t r = 0; r < k->rows; r++)
        memcpy((REAL *)to + (k->first + r) * p->n, from + r * p->row,
               (size_t)p->n * sizeof(REAL));
}

static void NAME(copy_masks)(const plan *p, const block *k) {
    for (int64_t i = 0; i < p->call->mask_count; i++)
        NAME(copy_in)(p, k, (const REAL *)p->call->masks + i * p->batch * p->n, k->masks[i]);
}

INLINE const REAL *NAME(mask_of)(const plan *p, const block *k, int gate) {
    if (!p->call->mask_count) return NULL;
    return k->masks[p->call->mask_count == 1 ? 0 : gate];
}

/* Where a caller keeps unit `unit` of row `r` of this block at step `t`. */
INLINE int64_t NAME(place)(const plan *p, const block *k, int64_t t, int64_t r, int64_t unit) {
    return (t * p->batch + k->first + r) * p->n + unit;
}

/* The fraction of the old state to keep at that place. */
INLINE vec NAME(hold_at)(const void *hold, int64_t width, const plan *p, const block *k, int64_t t,
                         int64_t r, int64_t unit, int64_t count) {
    const REAL *numbers = hold;
    if (width == 1) return NAME(splat)(numbers[t * p->batch + k->first + r]);
    return NAME(load_some)(numbers + NAME(place)(p, k, t, r, unit), count);
}
