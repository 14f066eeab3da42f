#include "kevolve.h"

// out[b, t, :] = row t of segment b, zero past its end.
extern "C" void jagged_to_padded_dense(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    #pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            if (0 < dim) {
                const int64_t d = 0;
                std::memcpy(&out[(b * max_length + t) * dim + d], &values[(start + t) * dim + d], static_cast<size_t>(dim) * sizeof(*out));
            }
        }
        if (rows < max_length) {
            const int64_t t = rows;
            const int64_t d = 0;
            std::memset(&out[(b * max_length + t) * dim + d], 0, static_cast<size_t>((max_length - rows) * dim) * sizeof(*out));
        }
    }
}
