// The unitary RNN, forwards: one block for each sequence, from first step to last.
// h' = modrelu(D3 R2 F^-1 D2 P R1 F D1 h + drive), every factor unitary.

extern "C" __global__ void __launch_bounds__(NT, 1)
unitary_forward(const float* __restrict__ drive, const float* __restrict__ h0,
                const Complex* __restrict__ tables, const Complex* __restrict__ turns,
                const Complex* __restrict__ vectors, const float* __restrict__ strengths,
                const long long* __restrict__ permutation, const float* __restrict__ bias,
                const unsigned char* __restrict__ ended, float* __restrict__ states,
                Complex* __restrict__ spectra, float* __restrict__ scales,
                Complex* __restrict__ sums, int T, int B) {
  extern __shared__ __align__(16) float smem[];
  const Room room(smem, tables, turns, vectors, permutation);
  const Fourier fourier(tables, room.roots);
  const int b = blockIdx.x;
  const long long plane = (long long)T * B * N;
  const float strength[2] = {strengths[0], strengths[1]};

  Complex h[E], in[E], next[E];
  float offset[E];
  auto fetch = [&](long long row) {
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i < N) next[e] = {load_here(drive + row * N + i), load_here(drive + plane + row * N + i)};
    }
  };
  fetch(b);
#pragma unroll
  for (int e = 0; e < E; e++) {
    const int i = threadIdx.x + e * NT;
    if (i >= N) continue;
    h[e] = {h0[2LL * b * N + i], h0[(2LL * b + 1) * N + i]};
    offset[e] = bias[i];
    room.x[i] = room.turn[0][i] * h[e];
  }
  __syncthreads();

#pragma unroll 1
  for (int t = 0; t < T; t++) {
    const long long row = (long long)t * B + b;
#pragma unroll
    for (int e = 0; e < E; e++) in[e] = next[e];
    if (t + 1 < T) fetch(row + B);
    if (!ended || !ended[row]) {
      Complex along = {0.0f, 0.0f};
      fourier.run<false>(room.x, room.y, [&](int i, Complex v) {
        room.x[i] = v;
        along = along + conj(room.along[0][i]) * v;
      });
      room.put(along);
      __syncthreads();
      const Complex first = room.total();
      along = strength[0] * first;
#pragma unroll
      for (int e = 0; e < E; e++) {
        const int i = threadIdx.x + e * NT;
        if (i >= N) continue;
        const int from = room.from[i];
        room.y[i] = room.turn[1][i] * (room.x[from] - along * room.along[0][from]);
        spectra[row * N + i] = room.x[i];
      }
      __syncthreads();

      along = {0.0f, 0.0f};
      fourier.run<true>(room.y, room.x, [&](int i, Complex v) {
        room.y[i] = v;
        along = along + conj(room.along[1][i]) * v;
      });
      room.put(along);
      __syncthreads();
      const Complex second = room.total();
      along = strength[1] * second;
#pragma unroll
      for (int e = 0; e < E; e++) {
        const int i = threadIdx.x + e * NT;
        if (i >= N) continue;
        const Complex v = room.y[i];
        const Complex z = room.turn[2][i] * (v - along * room.along[1][i]) + in[e];
        const float m = modulus(z), open = m + offset[e];
        const float scale = open > 0.0f ? open / (m > 0.0f ? m : 1.0f) : 0.0f;
        h[e] = scale * z;
        room.x[i] = room.turn[0][i] * h[e];
        spectra[plane + row * N + i] = v;
        scales[row * N + i] = scale;
      }
      if (threadIdx.x == 0) {
        sums[2 * row] = first;
        sums[2 * row + 1] = second;
      }
      __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      states[2 * row * N + i] = h[e].re;
      states[(2 * row + 1) * N + i] = h[e].im;
    }
  }
}
