/* One step of a stream, for a caller with nothing to differentiate: its rows are few, so threads
 * share out the numbers of every projection, and then the units that follow from them. */

typedef void (*NAME(units))(const plan *p, block *k, int64_t t, int64_t first, int64_t stop);

typedef struct {
    const plan *p;
    const block *k;
    const group *of;
    NAME(units) units;
} NAME(stage);
#define stage NAME(stage)

TARGET static int NAME(project_share)(const void *prepared, int64_t first, int64_t stop) {
    const stage *s = prepared;
    NAME(project)(s->p, s->k, s->of, first, stop);
    return 0;
}

/* Strips [first, stop) of WIDTH units, in scratch of this thread's own. */
TARGET static int NAME(units_share)(const void *prepared, int64_t first, int64_t stop) {
    const stage *s = prepared;
    block mine = *s->k;
    REAL strips[8][DIRECT_ROWS * WIDTH] __attribute__((aligned(64))) = {{0}};
    for (int g = 0; g < 4; g++) mine.out[g] = strips[g], mine.driven[g] = strips[4 + g];
    s->units(s->p, &mine, 0, first * WIDTH, stop * WIDTH);
    return 0;
}

/* Gates that read one vector, and the units that follow from them. */
TARGET static void NAME(run_stage)(const plan *p, block *k, const group *of, REAL *vector,
                                   NAME(units) units, int64_t threads, int64_t most) {
    stage s = {.p = p, .k = k, .of = of, .units = units};
    NAME(read)(p, k, of, vector);
    if (p->d) in_threads(NAME(project_share), &s, NAME(group_width)(p, of), threads, most);
    in_threads(NAME(units_share), &s, (p->n + WIDTH - 1) / WIDTH, threads, most);
}

TARGET static int NAME(step_in_threads)(const plan *p, int64_t threads, int64_t most) {
    block k = {.rows = p->batch};
    if (NAME(take_scratch)(&k, p, p->batch)) return 1;
    NAME(copy_in)(p, &k, p->call->initial, k.state);
    if (p->call->cell == LSTM) {
        NAME(copy_in)(p, &k, p->call->initial_cell, k.cell);
        NAME(run_stage)(p, &k, &p->groups[0], k.state, NAME(lstm_units), threads, most);
    } else if (p->call->cell == GRU_AFTER) {
        NAME(run_stage)(p, &k, &p->groups[0], k.state, NAME(gru_after), threads, most);
    } else {
        NAME(run_stage)(p, &k, &p->groups[0], k.state, NAME(gru_opening), threads, most);
        NAME(run_stage)(p, &k, &p->groups[1], k.carried, NAME(gru_closing), threads, most);
    }
    free(k.memory);
    return 0;
}

static int NAME(run_step)(const scan_call *cell, const step_tensors *of) {
    scan_call call = *cell;
    call.batch = of->rows;
    call.input = of->input, call.symbols = of->symbols;
    call.initial = of->state, call.initial_cell = of->cell;
    call.states = of->next_state, call.cells = of->next_cell;
    plan p;
    if (NAME(prepare)(&p, &call, 0)) return 1;
    int64_t most = NAME(work)(&p) / STEP_WORK;
    int failed = p.direct && step_takes_team(of->threads, most)
                     ? NAME(step_in_threads)(&p, of->threads, most)
                     : NAME(run_rows)(&p, 0, p.batch);
    free(p.memory);
    if (failed) return 1;
    size_t bytes = (size_t)(of->rows * call.units) * sizeof(REAL);
    if (of->output) memcpy(of->output, of->next_state, bytes);
    return 0;
}

#undef stage
