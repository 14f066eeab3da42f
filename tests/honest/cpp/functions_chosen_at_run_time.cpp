// operator: jagged_sum
// verdict: Scored
// Objects with virtual functions, made once and kept.
#include <memory>

#include "kevolve.h"

struct Summer {
    virtual ~Summer() = default;
    virtual void add(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) const = 0;
};

struct ByColumn : Summer {
    void add(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) const override {
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = start; t < end; t++) sum += values[t * dim + d];
            out[d] = sum;
        }
    }
};

struct ByBlock : Summer {
    void add(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) const override {
        for (int64_t left = 0; left < dim; left += 32) {
            float sums[32] = {};
            int64_t width = dim - left < 32 ? dim - left : 32;
            for (int64_t t = start; t < end; t++) {
                for (int64_t d = 0; d < width; d++) sums[d] += values[t * dim + left + d];
            }
            for (int64_t d = 0; d < width; d++) out[left + d] = sums[d];
        }
    }
};

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    static const std::unique_ptr<Summer> narrow(new ByColumn), wide(new ByBlock);
    const Summer &summer = dim < 8 ? *narrow : *wide;
    for (int64_t b = 0; b < batch; b++) summer.add(values, offsets[b], offsets[b + 1], out + b * dim, dim);
}
