// The backward pass of the large scan.

// `grad_drive` may lie in `saved`, and `behind` in `reset`: a thread reads the gates of a step before it writes
// there. `behind`, where dense matrices have one, takes the gradient of the product that a reset gate follows.
extern "C" __global__ void __launch_bounds__(NT, 1)
scan_backward(const io_t* __restrict__ grad_states, const io_t* __restrict__ grad_cells,
              const io_t* __restrict__ h0, const io_t* __restrict__ c0,
              const io_t* __restrict__ left, const io_t* __restrict__ right,
              const io_t* __restrict__ diagonal, const io_t* __restrict__ masks,
              const io_t* __restrict__ hold, const io_t* __restrict__ hold_cell,
              const io_t* __restrict__ states, const io_t* __restrict__ cells,
              const io_t* reset, const io_t* saved, io_t* grad_drive, io_t* behind,
              io_t* __restrict__ grad_h0, io_t* __restrict__ grad_c0,
              io_t* __restrict__ summaries, float* exchange,
              const long long* __restrict__ order, int T, int B, int b0) {
  GROUP_SETUP
  exchange1.project.load(wp1, room, [&](int gate, int row, int k) {
    if (DENSE) return SEPARATE ? f.dense_back(gate, row, k) : f.dense_back(k / KD, row, k % KD);
    return MERGED ? f.expand(k / KU, k % KU, row) : f.expand(gate, k, row);
  });
  exchange1.expand.load(we1, room + WARPS, [&](int u, int g, int k) {
    return SEPARATE ? f.project(g, k, u) : f.project(k / DP, k % DP, u);
  });
#if CELL == 1
  Exchange2 exchange2;
  exchange2.open(mine + Exchange1::FLOATS, wp2, we2, block, ranges + 2 * Range::WORDS);
  exchange2.project.load(wp2, room + 2 * WARPS, [&](int, int row, int k) {
    return DENSE ? f.dense_back(2, row, k) : f.expand(2, k, row);
  });
  exchange2.expand.load(we2, room + 3 * WARPS, [&](int u, int, int k) { return f.project(2, k, u); });
#endif
  constexpr int SAVED = CELL == 1 ? 3 : 4;
  constexpr int LOADS = SAVED + (CELL == 2 ? 3 : 2);
  float dh[EPT];
  Beside loads[LOADS][EPT / BESIDE];
#if CELL == 2
  float dcell[EPT];
#endif
#pragma unroll
  for (int e = 0; e < EPT; e++) {
    dh[e] = 0.0f;
#if CELL == 2
    dcell[e] = 0.0f;
#endif
  }
  auto ask = [&](int t) {
#pragma unroll
    for (int e = 0; e < EPT; e += BESIDE) {
      const long long o = t * step + at[e];
      const int p = e / BESIDE;
      loads[0][p] = Beside::read(grad_states + o, valid[e]);
      // With zeros for all else, a sequence that takes no part hands its gradient on as it is.
      const bool moves = valid[e] && party.will_have(e, seq[e]);
      // The state before; an LSTM's states enter only its weight gradients.
      const io_t* before = CELL == 2 ? cells : states;
      const io_t* start = CELL == 2 ? c0 : h0;
      loads[1][p] = Beside::read(t > 0 ? before + o - step : start + at[e], moves && (t > 0 || start));
#pragma unroll
      for (int k = 0; k < SAVED; k++)
        loads[2 + k][p] = Beside::read(gate_plane<CELL != 2>(reset, saved, k, plane) + o, moves);
#if CELL == 2
      loads[2 + SAVED][p] = Beside::read(grad_cells + o, grad_cells && valid[e]);
#endif
    }
  };
  auto in = [&](int k, int e) { return to_float(loads[k][e / BESIDE].of[e % BESIDE]); };
  // Operands of an exchange, from plane `first` on.
  auto publish = [&](auto& exchange, int first, int count, const float (&v)[G][EPT]) {
    if constexpr (SPREAD) {
#pragma unroll
      for (int e = 0; e < EPT; e++) {
        if (!party.has(e, seq[e])) continue;
#pragma unroll
        for (int p = 0; p < G; p++)
          if (p >= first && p < first + count) exchange.spread(party.turns, p - first, e, v[p][e]);
      }
      return;
    }
    Range& range = exchange.x_range;
    range.begin();
    do {
#pragma unroll
      for (int e = 0; e < EPT; e += BESIDE) {
        if (!party.has(e, seq[e])) continue;
        float most = 0.0f;
#pragma unroll
        for (int p = 0; p < G; p++)
#pragma unroll
          for (int i = 0; i < BESIDE; i++)
            if (p >= first && p < first + count && inside[e]) most = fmaxf(most, fabsf(v[p][e + i]));
        range.note_warp(seq[e], most);
        const float scale = power(range.scale(seq[e]));
#pragma unroll
        for (int p = 0; p < G; p++) {
          float scaled[BESIDE];
#pragma unroll
          for (int i = 0; i < BESIDE; i++) scaled[i] = v[p][e + i] * scale;
          if (p >= first && p < first + count && inside[e])
            store_halves(xs + p * PLANE, unit[e], seq[e], scaled);
        }
      }
      __syncthreads();
    } while (range.left());
  };
  // What comes back through the matrices of the first projection, masks applied.
  Results given[SEPARATE ? NP1 : 1];
  auto out = [&](int g, int e) {
    if (e % BESIDE == 0) Expand1::read(work, g, seq[e], unit[e], given[g]);
    return given[g].of[e % BESIDE];
  };
  auto back1 = [&](int e) {
    if (!SEPARATE) return MASKS ? out(0, e) * mask[0][e] : out(0, e);
    float sum = 0.0f;
#pragma unroll
    for (int g = 0; g < (SEPARATE ? NP1 : 1); g++) sum = fmaf(mask[g][e], out(g, e), sum);
    return sum;
  };
  // The gradient of a step's drive.
  Beside left_behind[G][LATER ? EPT / BESIDE : 1];
  auto store = [&](int g, int e, int t, const Beside& v) {
    if (valid[e]) v.write(grad_drive + g * plane + t * step + at[e]);
  };
  auto leave = [&](int g, int e, int t, float v) {
    Beside& here = left_behind[g][LATER ? e / BESIDE : 0];
    here.of[e % BESIDE] = from_float(v);
    if (!LATER && e % BESIDE == BESIDE - 1) store(g, e - e % BESIDE, t, here);
  };
  auto store_left = [&](int t) {
    if (!LATER) return;
#pragma unroll
    for (int e = 0; e < EPT; e += BESIDE)
#pragma unroll
      for (int g = 0; g < G; g++) store(g, e, t, left_behind[g][LATER ? e / BESIDE : 0]);
  };
  party.ask(T - 1);
  party.learn();
  ask(T - 1);

  for (int t = T - 1; t >= 0; t--) {
    party.step();
    if (t > 0) party.ask(t - 1);
    float direct[EPT], v[G][EPT];  // gradients of what the matrices gave
#if CELL == 2
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      const float keep = HELD(e), keep_cell = CELL_HELD(e);
      const float i = in(2, e), k = in(3, e), g = in(4, e), o = in(5, e);
      const float total = dh[e] + in(0, e), total_cell = dcell[e] + in(6, e);
      const float fresh = HOLD ? total * (1.0f - keep) : total;
      const float squashed = tanh_of(fmaf(i, g, k * in(1, e)));  // of the proposed cell
      const float dout = fresh * squashed * o * (1.0f - o);
      const float let_in = HOLD_CELL ? total_cell * (1.0f - keep_cell) : total_cell;
      const float dc = fmaf(fresh * o, 1.0f - squashed * squashed, let_in);
      const float din = dc * g * i * (1.0f - i);
      const float dkeep = dc * in(1, e) * k * (1.0f - k);
      const float dcand = dc * i * (1.0f - g * g);
      dcell[e] = HOLD_CELL ? fmaf(dc, k, keep_cell * total_cell) : dc * k;
      direct[e] = HOLD ? keep * total : 0.0f;
      direct[e] = fmaf(diag[0][e], din, direct[e]);
      direct[e] = fmaf(diag[1][e], dkeep, direct[e]);
      direct[e] = fmaf(diag[2][e], dcand, direct[e]);
      direct[e] = fmaf(diag[3][e], dout, direct[e]);
      v[0][e] = din;
      v[1][e] = dkeep;
      v[2][e] = dcand;
      v[3][e] = dout;
      leave(0, e, t, din);
      leave(1, e, t, dkeep);
      leave(2, e, t, dcand);
      leave(3, e, t, dout);
    }
#else
    float dc[EPT];
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      const float keep = HELD(e);
      const float u = in(3, e), c = in(4, e), before = in(1, e);
      const float total = dh[e] + in(0, e);
      const float fresh = HOLD ? total * (1.0f - keep) : total;
      const float du = fresh * (before - c) * u * (1.0f - u);
      dc[e] = fresh * (1.0f - u) * (1.0f - c * c);
      direct[e] = fresh * u;
      if (HOLD) direct[e] = fmaf(keep, total, direct[e]);
      direct[e] = fmaf(diag[1][e], du, direct[e]);
      v[1][e] = du;
      leave(1, e, t, du);
      leave(2, e, t, dc[e]);
#if CELL == 0
      const float r = in(2, e);
      const float dq = dc[e] * r;
      const float dr = dc[e] * in(5, e) * r * (1.0f - r);
      direct[e] = fmaf(diag[0][e], dr, direct[e]);
      direct[e] = fmaf(diag[2][e], dq, direct[e]);
      v[0][e] = dr;
      v[2][e] = dq;
      leave(0, e, t, dr);
      if (DENSE && behind && valid[e]) behind[t * step + at[e]] = from_float(dq);
#else
      v[2][e] = dc[e];
#endif
    }
#if CELL == 1
    publish(exchange2, 2, 1, v);
    exchange2.run(xs + 2 * PLANE, work, spare, party, SUMMARY(FZ1), [] {});
#pragma unroll
    for (int e = 0; e < EPT; e++) {
      const float r = in(2, e);
      if (e % BESIDE == 0 && party.has(e, seq[e])) Expand2::read(work, 0, seq[e], unit[e], given[0]);
      float ds = party.has(e, seq[e]) ? given[0].of[e % BESIDE] : 0.0f;
      if (MASKS) ds *= mask[2][e];
      ds = fmaf(diag[2][e], dc[e], ds);
      const float dr = ds * in(1, e) * r * (1.0f - r);
      direct[e] = fmaf(ds, r, direct[e]);
      direct[e] = fmaf(diag[0][e], dr, direct[e]);
      v[0][e] = dr;
      leave(0, e, t, dr);
    }
#endif
#endif
    publish(exchange1, 0, NP1, v);
    party.learn();
    if (t > 0) ask(t - 1);
    exchange1.run(xs, work, spare, party, SUMMARY(0), [&] { store_left(t); });
#pragma unroll
    for (int e = 0; e < EPT; e++)
      dh[e] = !valid[e] ? 0.0f : party.has(e, seq[e]) ? direct[e] + back1(e) : direct[e];
  }
#pragma unroll
  for (int e = 0; e < EPT; e++)
    if (valid[e] && grad_h0) {
      grad_h0[at[e]] = from_float(dh[e]);
#if CELL == 2
      grad_c0[at[e]] = from_float(dcell[e]);
#endif
    }
}
