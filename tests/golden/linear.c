/* SPDX-License-Identifier: MIT
 *
 * Sums of products in 64 bits for formula.py and encoder.py (linear.py), which take minutes without.
 */
void linear_f32(const float *w, const double *x, double *y, long n_out, long n_in);
void linear_f64(const double *w, const double *x, double *y, long n_out, long n_in);
void linear_update(double *w, double factor, const double *out, const double *in, long n_out, long n_in);

/* y = w x; w: [n_out][n_in] */
void linear_f32(const float *w, const double *x, double *y, long n_out, long n_in)
{
    for (long o = 0; o < n_out; o++, w += n_in) {
        double sum = 0;
        for (long i = 0; i < n_in; i++) sum += (double)w[i] * x[i];
        y[o] = sum;
    }
}

void linear_f64(const double *w, const double *x, double *y, long n_out, long n_in)
{
    for (long o = 0; o < n_out; o++, w += n_in) {
        double sum = 0;
        for (long i = 0; i < n_in; i++) sum += w[i] * x[i];
        y[o] = sum;
    }
}

/* w = factor w + out in^T */
void linear_update(double *w, double factor, const double *out, const double *in, long n_out, long n_in)
{
    for (long o = 0; o < n_out; o++, w += n_in)
        for (long i = 0; i < n_in; i++) w[i] = factor * w[i] + out[o] * in[i];
}
