// Matrices that factors make up, W = L R or L R + D, and the gradients of the factors from theirs.
//
// Compile-time constants: N units, D rank, G gates, DIAG, TIED.

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int ROW_BLOCKS = (G * N + WARPS - 1) / WARPS;  // of warps, each with a row of a left factor
constexpr int RIGHTS = (TIED ? 1 : G) * D * N;           // numbers of right factors
constexpr int COLUMNS = (N + 31) / 32;                   // of a lane

extern "C" __global__ void __launch_bounds__(THREADS)
form_matrices(const float* __restrict__ left, const float* __restrict__ right,
              const float* __restrict__ diagonal, float* __restrict__ matrices) {
  const int at = blockIdx.x * THREADS + threadIdx.x;
  if (at >= G * N * N) return;
  const int g = at / (N * N), i = at / N % N, j = at % N;
  const float* l = left + (g * N + i) * D;
  const float* r = right + (TIED ? 0 : g) * D * N + j;
  float sum = 0.0f;
#pragma unroll 10
  for (int k = 0; k < D; k++) sum = fmaf(l[k], r[k * N], sum);
  matrices[at] = DIAG && i == j ? sum + diagonal[g * N + i] : sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
factor_gradients(const float* __restrict__ left, const float* __restrict__ right,
                 const float* __restrict__ grad, float* __restrict__ grad_left,
                 float* __restrict__ grad_right, float* __restrict__ grad_diagonal) {
  if (blockIdx.x < ROW_BLOCKS) {
    const int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= G * N) return;
    const float* r = right + (TIED ? 0 : row / N) * D * N;
    float of[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) of[c] = lane + 32 * c < N ? grad[row * N + lane + 32 * c] : 0.0f;
    if (DIAG && lane == 0) grad_diagonal[row] = grad[row * N + row % N];
#pragma unroll 10  // or else each sum over the lanes would be waited for
    for (int k = 0; k < D; k++) {
      float sum = 0.0f;
#pragma unroll
      for (int c = 0; c < COLUMNS; c++)
        if (lane + 32 * c < N) sum = fmaf(of[c], r[k * N + lane + 32 * c], sum);
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      if (lane == 0) grad_left[row * D + k] = sum;
    }
  } else {
    const int at = (blockIdx.x - ROW_BLOCKS) * THREADS + threadIdx.x;
    if (at >= RIGHTS) return;
    // A shared factor has gradients from all gates, whose rows lie one after the other.
    const int row0 = TIED ? 0 : at / (D * N) * N, rows = TIED ? G * N : N, k = at / N % D, j = at % N;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = row0; i < row0 + rows; i++) sum = fmaf(left[i * D + k], grad[i * N + j], sum);
    grad_right[at] = sum;
  }
}
