/* SPDX-License-Identifier: MIT */
#include "app/sbc.h"
#include <inttypes.h>
#include <math.h>

enum { L = ATVI_SBC_DRAWS, K = ATVI_SBC_DRAWS + 1 };
static const double BAND = 0.05, OVERALL = 0.01;
static const double SIGHT = 0.005; /* to which factors are found */

/* ---- counting ---- */

/* A test for n ranks; *ecdf is one for *n_ecdf of them already. It is shared by quantities with the same
 * number of ranks, almost always all. */
static atvi_status test_for(atvi_ctx *ctx, const atvi_sbc *s, atvi_idx n, atvi_ecdf **ecdf,
                            atvi_idx *n_ecdf) {
  if (*n_ecdf == n) return ATVI_OK;
  atvi_math_ecdf_free(*ecdf);
  *n_ecdf = 0;
  ATVI_TRY(atvi_math_ecdf_new(ctx, n, K, atvi_math_ecdf_sims(n, s->level), 1, ecdf));
  *n_ecdf = n;
  return ATVI_OK;
}

static atvi_status count_line(atvi_ctx *ctx, const atvi_sbc *s, const atvi_record_part *x, atvi_ecdf **ecdf,
                              atvi_idx *n_ecdf, atvi_sbc_line *line) {
  atvi_idx count[K] = {0}, below = 0;
  double sum = 0, square = 0, unit = atvi_app_sbc_mean_square();
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    double rank = atvi_app_record_good(x, r) ? atvi_app_record_number(x->csv, r, line->name, ".rank") : NAN;
    if (!(rank >= 0 && rank <= L)) continue;
    double z = atvi_app_sbc_score((atvi_idx)rank);
    count[(atvi_idx)rank]++;
    line->bin[(atvi_idx)rank * ATVI_SBC_BINS / K]++;
    line->n++;
    sum += z;
    square += z * z / unit;
  }
  line->p_band = line->p_spread = line->mean_z = line->sd_z = NAN;
  line->inside = line->fine = true; /* no objection */
  if (line->n == 0) return ATVI_OK;
  ATVI_TRY(test_for(ctx, s, line->n, ecdf, n_ecdf));
  line->mean_z = sum / (double)line->n;
  line->sd_z = sqrt(square / (double)line->n);
  line->p_spread = atvi_app_sbc_spread(line->n, square);
  line->p_band = atvi_math_ecdf_p(*ecdf, count);
  atvi_math_ecdf_band(*ecdf, BAND, line->low, line->high);
  for (atvi_idx i = 0; i < L; i++) {
    double u = (double)(i + 1) / K, f;
    below += count[i];
    f = (double)below / (double)line->n;
    line->inside = line->inside && f >= line->low[i] - 1e-12 && f <= line->high[i] + 1e-12;
    line->difference[i] = f - u;
    line->low[i] -= u;
    line->high[i] -= u;
  }
  return ATVI_OK;
}

/* By the quantity with the fewest ranks. */
static atvi_status look(atvi_ctx *ctx, atvi_sbc *s, atvi_ecdf **ecdf, atvi_idx *n_ecdf) {
  atvi_idx n = 0;
  s->power = ATVI_SBC_BLIND;
  s->narrow = s->wide = NAN;
  for (atvi_idx i = 0; i < s->n; i++)
    if (s->line[i].n > 0 && (n == 0 || s->line[i].n < n)) n = s->line[i].n;
  if (n == 0) return ATVI_OK;
  ATVI_TRY(test_for(ctx, s, n, ecdf, n_ecdf));
  atvi_app_sbc_notice(*ecdf, n, s->level, &s->narrow, &s->wide);
  s->power = s->narrow >= 0.75 - SIGHT  ? ATVI_SBC_SHARP
             : s->narrow >= 0.5 - SIGHT ? ATVI_SBC_ROUGH
                                        : ATVI_SBC_BLIND;
  return ATVI_OK;
}

atvi_status atvi_app_sbc_count(atvi_ctx *ctx, atvi_pool *pool, const atvi_csv *record, atvi_sbc *s) {
  atvi_ecdf *ecdf = NULL;
  atvi_idx n_ecdf = 0;
  atvi_record_part x = {record, s->method, s->replicates};
  ATVI_TRY(atvi_app_record_tally(pool, &x, false, &s->tally, &s->failures));
  for (atvi_idx r = 0; r < record->n_row; r++)
    if (atvi_app_record_good(&x, r)) s->seconds += atvi_app_record_number(record, r, "", "seconds");
  s->level = OVERALL / (2 * (double)(s->n > 0 ? s->n : 1));
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; status == ATVI_OK && i < s->n; i++)
    status = count_line(ctx, s, &x, &ecdf, &n_ecdf, &s->line[i]);
  s->fine = true;
  s->n_untested = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    atvi_sbc_line *l = &s->line[i];
    l->fine = !(l->p_band < s->level) && !(l->p_spread < s->level); /* NaN is not an objection */
    s->fine = s->fine && l->fine;
    s->n_untested += l->n == 0;
  }
  if (status == ATVI_OK) status = look(ctx, s, &ecdf, &n_ecdf);
  atvi_math_ecdf_free(ecdf);
  return status;
}

#define LINE(name, heading, width, show)                                                                     \
  ATVI_FIELD_SHOWN(#name, REAL, atvi_sbc_line, name, heading, width, show, 2)
static const atvi_field LINES[] = {LINE(p_band, "p band", 9, GENERAL), LINE(p_spread, "p spread", 9, GENERAL),
                                   ATVI_FIELD(REAL, atvi_sbc_line, mean_z), LINE(sd_z, "sd z", 7, FIXED)};
static const atvi_fields LINE_FIELDS = ATVI_FIELDS(LINES);
static const char SHOWN[] = "p_band p_spread sd_z";

/* ---- terminal ---- */

/* The problem, in two words. */
static const char *word(const atvi_sbc_line *l) {
  if (l->n == 0) return "no ranks";
  if (l->fine) return "";
  double far =
      2.6 / sqrt((double)l->n); /* 1 % of means of z are further out; 1 % of its sds, at 0.7 of that */
  if (fabs(l->mean_z) > far * fmax(1, l->sd_z)) return l->mean_z > 0 ? "too low" : "too high";
  if (fabs(l->sd_z - 1) > 0.7 * far) return l->sd_z > 1 ? "too narrow" : "too wide";
  return "wrong shape";
}

/* By power, if there is no objection. */
static const char *const WORD[] = {"-", "no sign", "yes"};
static const char *const WHOLE[] = {"too few replicates to tell", "no sign of an error", "yes"};

static void sight(atvi_text *out, const atvi_sbc *s) {
  const char *more = s->tally.n_done == 1 ? "" : "s";
  if (isnan(s->narrow) && isnan(s->wide)) {
    atvi_io_text_add(out, "with %td replicate%s no wrong posterior is certain to be noticed\n",
                     s->tally.n_done, more);
    return;
  }
  atvi_io_text_add(out, "may go unnoticed with %td replicate%s: sds too small by ", s->tally.n_done, more);
  if (isnan(s->narrow))
    atvi_io_text_add(out, "whatever factor, too large by ");
  else
    atvi_io_text_add(out, "a factor of %.3g, too large by ", 1 / s->narrow);
  if (isnan(s->wide))
    atvi_io_text_add(out, "whatever factor\n");
  else
    atvi_io_text_add(out, "%.3g\n", s->wide);
}

atvi_status atvi_app_sbc_text(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "%s, method %s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->method,
                   s->replicates, s->replicates == 1 ? "" : "s", s->seed);
  atvi_app_tally_text(&out, &s->tally);
  atvi_io_text_add(&out, "; %.3g s per fit\n", s->tally.n_done ? s->seconds / (double)s->tally.n_done : 0);
  if (s->scale_sd != 1)
    atvi_io_text_add(&out, "posterior draws were scaled about their mean by %g: this should be noticed\n",
                     s->scale_sd);
  atvi_io_text_add(&out, "\n%-14s %-7s", "", "95 %");
  atvi_io_fields_heading(&out, &LINE_FIELDS, SHOWN);
  atvi_io_text_add(&out, "  ranks of the truth, ten bins\n");
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_sbc_line *l = &s->line[i];
    atvi_io_text_add(&out, "%-14.30s %-7s", l->name, l->n == 0 ? "" : l->inside ? "inside" : "outside");
    atvi_io_fields_row(&out, &LINE_FIELDS, l, SHOWN, "");
    atvi_io_text_add(&out, " ");
    for (int b = 0; b < ATVI_SBC_BINS; b++) atvi_io_text_add(&out, " %3td", l->bin[b]);
    const char *how = !l->fine ? "NO" : l->n == 0 ? "not known" : WORD[s->power];
    atvi_io_text_add(&out, "  %s%s%s\n", how, *word(l) ? ", " : "", word(l));
  }
  atvi_io_text_add(&out, "\ncalibrated at 99 %% over all quantities: ");
  if (s->fine && s->n_untested)
    atvi_io_text_add(&out, "not known, %td of %td %s no ranks\n", s->n_untested, s->n,
                     s->n_untested == 1 ? "has" : "have");
  else
    atvi_io_text_add(&out, "%s\n", s->fine ? WHOLE[s->power] : "NO");
  if (s->fine && s->tally.n_done) sight(&out, s);
  atvi_app_failures_text(&out, &s->failures);
  return atvi_io_text_get(&out, text);
}

/* ---- files ---- */

atvi_status atvi_app_sbc_csv(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "quantity,u,difference,low95,high95\n");
  for (atvi_idx i = 0; i < s->n; i++)
    for (int k = 0; s->line[i].n && k < L; k++) {
      const atvi_sbc_line *l = &s->line[i];
      atvi_app_field(&out, l->name);
      atvi_io_text_add(&out, ",%.4g,%.9g,%.9g,%.9g\n", (double)(k + 1) / K, l->difference[k], l->low[k],
                       l->high[k]);
    }
  return atvi_io_text_get(&out, text);
}

/* null if there are too few replicates to tell, or no ranks */
static json_t *calibrated(const atvi_sbc *s, bool fine, bool tested) {
  return fine && (s->power == ATVI_SBC_BLIND || !tested) ? json_null() : json_boolean(fine);
}

static void put_line(atvi_json *w, const atvi_sbc *s, const atvi_sbc_line *l) {
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "name", atvi_io_json_word(w->pool, l->name));
  atvi_io_json_put(w, "kind", json_string(l->derived ? "derived" : "parameter"));
  atvi_io_json_put(w, "ranks", json_integer(l->n));
  atvi_io_json_list(w, "histogram");
  for (int b = 0; b < ATVI_SBC_BINS; b++) atvi_io_json_put(w, NULL, json_integer(l->bin[b]));
  atvi_io_json_end(w);
  atvi_io_json_put(w, "inside95", l->n ? json_boolean(l->inside) : json_null());
  atvi_io_fields_json(w, &LINE_FIELDS, l, NULL);
  atvi_io_json_put(w, "calibrated", calibrated(s, l->fine, l->n > 0));
  atvi_io_json_end(w);
}

atvi_status atvi_app_sbc_json(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_json w = {.pool = pool, .digits = 17};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, s->model));
  atvi_io_json_put(&w, "method", json_string(s->method));
  atvi_io_json_put(&w, "seed", atvi_io_json_seed(pool, s->seed));
  atvi_io_json_put(&w, "replicates", json_integer(s->replicates));
  atvi_app_tally_json(&w, &s->tally);
  atvi_io_json_put(&w, "scale_sd", json_real(s->scale_sd));
  atvi_io_json_put(&w, "seconds", atvi_io_json_real(s->seconds));
  atvi_io_json_put(&w, "level", json_real(s->level));
  atvi_io_json_put(&w, "calibrated", calibrated(s, s->fine, s->n_untested == 0));
  atvi_io_json_object(&w, "noticed");
  atvi_io_json_put(&w, "sd_below", atvi_io_json_real(s->narrow));
  atvi_io_json_put(&w, "sd_above", atvi_io_json_real(s->wide));
  atvi_io_json_end(&w);
  atvi_io_json_list(&w, "quantities");
  for (atvi_idx i = 0; i < s->n; i++) put_line(&w, s, &s->line[i]);
  atvi_io_json_end(&w);
  atvi_io_json_words(&w, "failures", s->failures.n, s->failures.of);
  return atvi_io_json_get(&w, "sbc", text);
}
