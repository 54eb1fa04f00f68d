// The forward pass of the large scan.

// `saved` may hold the drive: a thread reads it before it writes the gates of that step. The reset gate of a GRU
// lies apart. Initial states that are not given are zero.
extern "C" __global__ void __launch_bounds__(NT, 1)
scan_forward(const io_t* drive, const io_t* __restrict__ h0,
             const io_t* __restrict__ c0, const io_t* __restrict__ left,
             const io_t* __restrict__ right, const io_t* __restrict__ diagonal,
             const io_t* __restrict__ masks, const io_t* __restrict__ hold,
             const io_t* __restrict__ hold_cell, const io_t* __restrict__ inner,
             io_t* __restrict__ states, io_t* __restrict__ cells,
             io_t* __restrict__ reset, io_t* saved, io_t* __restrict__ summaries, float* exchange,
             const long long* __restrict__ order, int T, int B, int b0) {
  GROUP_SETUP
  exchange1.project.load(wp1, room, [&](int g, int row, int k) {
    if (DENSE)
      return SEPARATE ? f.dense(g, row, k) : f.dense(row / (ACROSS * UP), row % (ACROSS * UP), k);
    return SEPARATE ? f.project(g, row, k) : f.project(row / DP, row % DP, k);
  });
  exchange1.expand.load(we1, room + WARPS, [&](int u, int g, int k) { return f.expand(g, u, k); });
#if CELL == 1
  Exchange2 exchange2;
  exchange2.open(mine + Exchange1::FLOATS, wp2, we2, block, ranges + 2 * Range::WORDS);
  exchange2.x_range = exchange1.x_range;
  exchange2.project.load(wp2, room + 2 * WARPS, [&](int, int row, int k) {
    return DENSE ? f.dense(2, row, k) : f.project(2, row, k);
  });
  exchange2.expand.load(we2, room + 3 * WARPS, [&](int u, int, int k) { return f.expand(2, u, k); });
#endif
  float h[EPT];
#if CELL == 2
  float cell[EPT];
#endif
#pragma unroll
  for (int e = 0; e < EPT; e++) {
    h[e] = to_float(read(h0 + at[e], h0 && valid[e]));
#if CELL == 2
    cell[e] = to_float(read(c0 + at[e], c0 && valid[e]));
#endif
  }
  // A state never leaves -1 to 1, or where it began: one scale serves all steps.
  float scale[EPT];
#pragma unroll
  for (int e = 0; e < EPT; e++) {
    float most = fmaxf(1.0f, fabsf(h[e])), most_mask = MASKS ? 0.0f : 1.0f;
#pragma unroll
    for (int g = 0; g < (MASKS ? G : 0); g++) most_mask = fmaxf(most_mask, fabsf(mask[g][e]));
    exchange1.x_range.note_warp(seq[e], valid[e] ? most * most_mask : 0.0f);
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < EPT; e++) scale[e] = power(exchange1.x_range.scale(seq[e]));
  auto publish = [&](bool first) {  // the state, as each matrix sees it
#pragma unroll
    for (int e = 0; e < EPT; e += BESIDE) {
      // Lanes outside of the block send with the others.
      if (!(SPREAD || inside[e]) || !(first || party.has(e, seq[e]))) continue;
#pragma unroll
      for (int p = 0; p < PLANES; p++) {
        float v[BESIDE];
#pragma unroll
        for (int i = 0; i < BESIDE; i++) {
          v[i] = MASKS ? h[e + i] * mask[p][e + i] : h[e + i];
          if (!SPREAD) v[i] *= scale[e];
        }
        if (SPREAD)
          exchange1.spread(party.turns.next(), p, e, v[0]);
        else
          store_halves(xs + p * PLANE, unit[e], seq[e], v);
      }
    }
    if (!SPREAD) __syncthreads();
  };
  publish(true);
  // What a step leaves behind: its states, its cells, and from GATES on its gates.
  constexpr int GATES = CELL == 2 ? 2 : 1, LEFT = GATES + (CELL == 1 ? 3 : 4);
  Beside left_behind[LEFT][LATER ? EPT / BESIDE : 1];
  auto store = [&](int k, int e, int t, const Beside& v) {
    io_t* to = k == 0 ? states
                      : k < GATES ? cells : gate_plane<CELL != 2>(reset, saved, k - GATES, plane);
    if (valid[e]) v.write(to + t * step + at[e]);
  };
  auto leave = [&](int k, int e, int t, float v) {
    Beside& here = left_behind[k][LATER ? e / BESIDE : 0];
    here.of[e % BESIDE] = from_float(v);
    if (!LATER && e % BESIDE == BESIDE - 1) store(k, e - e % BESIDE, t, here);
  };
  auto store_left = [&](int t) {
    if (!LATER || t < 0) return;
#pragma unroll
    for (int e = 0; e < EPT; e += BESIDE)
#pragma unroll
      for (int k = 0; k < LEFT; k++) store(k, e, t, left_behind[k][LATER ? e / BESIDE : 0]);
  };
  // The state of a sequence that takes no part stays. Its gates are zero, not unwritten: the backward may
  // seat it beside others, with whom it does take part.
  auto stay = [&](int e, int t) {
    leave(0, e, t, h[e]);
#if CELL == 2
    leave(1, e, t, cell[e]);
#endif
#pragma unroll
    for (int k = GATES; k < LEFT; k++) leave(k, e, t, 0.0f);
  };

  party.ask(0);
  party.learn();
  for (int t = 0; t < T; t++) {
    party.step();
    Beside drives[G][EPT / BESIDE];
    float keep[EPT];
#if CELL == 2
    float keep_cell[EPT];
#endif
#pragma unroll
    for (int e = 0; e < EPT; e++) {
#pragma unroll
      for (int g = 0; g < (e % BESIDE ? 0 : G); g++)
        drives[g][e / BESIDE] =
            Beside::read(drive + g * plane + t * step + at[e], valid[e] && party.has(e, seq[e]));
      if (!RESTS) keep[e] = HELD(e);
#if CELL == 2
      if (!RESTS) keep_cell[e] = CELL_HELD(e);
#endif
    }
    exchange1.run(xs, work, spare, party, SUMMARY(0), [&] { store_left(t - 1); });
    if (t + 1 < T) party.ask(t + 1);
    auto in = [&](int g, int e) { return to_float(drives[g][e / BESIDE].of[e % BESIDE]); };
    // What a gate's matrix gave, read from `work` for all units that lie beside each other at once.
    Results given[NP1];
    auto out = [&](int g, int e) {
      if (e % BESIDE == 0) Expand1::read(work, g, seq[e], unit[e], given[g]);
      return given[g].of[e % BESIDE];
    };
#if CELL == 0
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      if (!party.has(e, seq[e])) {
        stay(e, t);
        continue;
      }
      const float r = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], out(0, e)));
      const float u = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], out(1, e)));
      float q = fmaf(diag[2][e], h[e], out(2, e));
#if INNER
      q += to_float(read(inner + unit0 + unit[e], valid[e]));
#endif
      const float c = tanh_of(fmaf(r, q, in(2, e)));
      float fresh = fmaf(u, h[e] - c, c);
      if (RESTS) keep[e] = HELD(e);
      if (HOLD) fresh = keep[e] * h[e] + (1.0f - keep[e]) * fresh;
      h[e] = valid[e] ? fresh : 0.0f;
      leave(0, e, t, fresh);
      leave(GATES, e, t, r);
      leave(GATES + 1, e, t, u);
      leave(GATES + 2, e, t, c);
      leave(GATES + 3, e, t, q);
    }
#elif CELL == 1
    float u[EPT], from_diag[EPT], v[BESIDE];
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      if (!party.has(e, seq[e])) continue;
      const float r = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], out(0, e)));
      u[e] = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], out(1, e)));
      const float rh = r * h[e];
      from_diag[e] = fmaf(diag[2][e], rh, in(2, e));
      v[e % BESIDE] = MASKS ? rh * mask[2][e] : rh;
      if (!SPREAD) v[e % BESIDE] *= scale[e];
      if (SPREAD)
        exchange2.spread(party.turns, 0, e, v[0]);
      else if (inside[e] && e % BESIDE == BESIDE - 1)
        store_halves(xs, unit[e] / BESIDE * BESIDE, seq[e], v);
      leave(GATES, e, t, r);
      leave(GATES + 1, e, t, u[e]);
    }
    if (!SPREAD) __syncthreads();
    exchange2.run(xs, work, spare, party, SUMMARY(FZ1), [] {});
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      if (!party.has(e, seq[e])) {
        stay(e, t);
        continue;
      }
      if (e % BESIDE == 0) Expand2::read(work, 0, seq[e], unit[e], given[0]);
      const float c = tanh_of(from_diag[e] + given[0].of[e % BESIDE]);
      float fresh = fmaf(u[e], h[e] - c, c);
      if (RESTS) keep[e] = HELD(e);
      if (HOLD) fresh = keep[e] * h[e] + (1.0f - keep[e]) * fresh;
      h[e] = valid[e] ? fresh : 0.0f;
      leave(0, e, t, fresh);
      leave(GATES + 2, e, t, c);
    }
#else
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      if (!party.has(e, seq[e])) {
        stay(e, t);
        continue;
      }
      const float i = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], out(0, e)));
      const float k = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], out(1, e)));
      const float g = tanh_of(in(2, e) + fmaf(diag[2][e], h[e], out(2, e)));
      const float o = sigmoid(in(3, e) + fmaf(diag[3][e], h[e], out(3, e)));
      float c = fmaf(i, g, k * cell[e]);
      float fresh = o * tanh_of(c);
      if (RESTS) keep_cell[e] = CELL_HELD(e);
      if (HOLD_CELL) c = keep_cell[e] * cell[e] + (1.0f - keep_cell[e]) * c;
      if (RESTS) keep[e] = HELD(e);
      if (HOLD) fresh = keep[e] * h[e] + (1.0f - keep[e]) * fresh;
      cell[e] = valid[e] ? c : 0.0f;
      h[e] = valid[e] ? fresh : 0.0f;
      leave(0, e, t, fresh);
      leave(1, e, t, c);
      leave(GATES, e, t, i);
      leave(GATES + 1, e, t, k);
      leave(GATES + 2, e, t, g);
      leave(GATES + 3, e, t, o);
    }
#endif
    publish(false);
    party.learn();
  }
  store_left(T - 1);
}
