// The sum of each row: every work item takes the rows that are its own.
__kernel void row_sums(__global const VALUE *x, __global VALUE *out, long rows, long dim)
{
    for (long row = get_global_id(0); row < rows; row += get_global_size(0)) {
        float sum = 0;
        for (long column = 0; column < dim; column++)
            sum += get(x, row * dim + column);
        put(out, row, sum);
    }
}
