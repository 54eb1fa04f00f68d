// What inputs and biases give to every gate at every step: drive[g, row, i] = b[g, i] + W[g, i] v[row]
// for features or, with SYMBOLS, one-hot v. One pass: nothing but the result goes through memory.
//
// Compile-time constants: N units, WIDTH columns of W, SYMBOLS, SCALE, BIAS.

constexpr int U = 128;      // units of a block, four for each lane
constexpr int ROWS = 32;    // rows staged at once, eight for each warp
constexpr int PITCH = U + 1;

extern "C" __global__ void __launch_bounds__(128)
form_drive(const io_t* __restrict__ x, const long long* __restrict__ symbols,
           const io_t* __restrict__ scale, const io_t* __restrict__ weight,
           const io_t* __restrict__ bias, io_t* __restrict__ drive, int count, int chunk) {
  __shared__ float ws[WIDTH * PITCH];
  __shared__ float xs[SYMBOLS ? 1 : ROWS * WIDTH];
  const int unit0 = blockIdx.x * U, g = blockIdx.y;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < U * WIDTH; i += 128) {
    const int u = i / WIDTH, k = i % WIDTH;
    ws[k * PITCH + u] = unit0 + u < N ? to_float(weight[((long long)g * N + unit0 + u) * WIDTH + k]) : 0.0f;
  }
  float b[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int u = unit0 + lane + 32 * j;
    b[j] = BIAS && u < N ? to_float(bias[g * N + u]) : 0.0f;
  }
  const int first = blockIdx.z * chunk;
  const int last = first + chunk < count ? first + chunk : count;
  for (int base = first; base < last; base += ROWS) {
    __syncthreads();
#if !SYMBOLS
    for (int i = threadIdx.x; i < ROWS * WIDTH; i += 128)
      xs[i] = base + i / WIDTH < last ? to_float(x[(long long)base * WIDTH + i]) : 0.0f;
    __syncthreads();
#endif
    float acc[8][4];
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[r][j] = b[j];
#if SYMBOLS
#pragma unroll
    for (int r = 0; r < 8; r++) {
      const int row = base + warp * 8 + r;
      if (row >= last) continue;
      // A symbol that does not exist makes its row undefined, not a number from elsewhere.
      const bool known = (unsigned long long)symbols[row] < WIDTH;
      const int k = known ? (int)symbols[row] : 0;
      const float by = !known ? __uint_as_float(0x7fc00000u) : SCALE ? to_float(scale[row]) : 1.0f;
#pragma unroll
      for (int j = 0; j < 4; j++) acc[r][j] = fmaf(ws[k * PITCH + lane + 32 * j], by, acc[r][j]);
    }
#else
#pragma unroll 4
    for (int k = 0; k < WIDTH; k++) {
      float w[4];
#pragma unroll
      for (int j = 0; j < 4; j++) w[j] = ws[k * PITCH + lane + 32 * j];
#pragma unroll
      for (int r = 0; r < 8; r++) {
        const float v = xs[(warp * 8 + r) * WIDTH + k];
#pragma unroll
        for (int j = 0; j < 4; j++) acc[r][j] = fmaf(v, w[j], acc[r][j]);
      }
    }
#endif
#pragma unroll
    for (int r = 0; r < 8; r++) {
      const int row = base + warp * 8 + r;
      io_t* to = drive + ((long long)g * count + row) * N + unit0;
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (row < last && unit0 + lane + 32 * j < N) to[lane + 32 * j] = from_float(acc[r][j]);
    }
  }
}
