/* SPDX-License-Identifier: MIT */
#include "app/sbc.h"
#include "io/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { L = ATVI_SBC_DRAWS, K = ATVI_SBC_DRAWS + 1 };
static const double BAND = 0.05, OVERALL = 0.01;
static const double SIGHT = 0.005; /* to which factors are found */
static const char *const VERDICT[3] = {"ok", "warn", "bad"};

/* ---- counting ---- */

static bool mine(const atvi_sbc *s, const atvi_csv *csv, atvi_idx row) {
  return strcmp(atvi_record_text(csv, row, "method"), s->method) == 0 &&
         atvi_record_number(csv, row, "", "replicate") <= (double)s->replicates;
}

static bool good(const atvi_csv *csv, atvi_idx row) {
  return strcmp(atvi_record_text(csv, row, "status"), "ok") == 0;
}

/* A test for n ranks; *ecdf is one for *n_ecdf of them already. The same serves quantities with as many ranks, which is almost always all. */
static atvi_status test_for(atvi_ctx *ctx, const atvi_sbc *s, atvi_idx n, atvi_ecdf **ecdf,
                            atvi_idx *n_ecdf) {
  if (*n_ecdf == n) return ATVI_OK;
  atvi_ecdf_free(*ecdf);
  *n_ecdf = 0;
  ATVI_TRY(atvi_ecdf_new(ctx, n, K, atvi_ecdf_sims(n, s->level), 1, ecdf));
  *n_ecdf = n;
  return ATVI_OK;
}

static atvi_status count_line(atvi_ctx *ctx, const atvi_sbc *s, const atvi_csv *csv, atvi_ecdf **ecdf,
                              atvi_idx *n_ecdf, atvi_sbc_line *line) {
  atvi_idx count[K] = {0}, below = 0;
  double sum = 0, square = 0, unit = atvi_sbc_mean_square();
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    double rank = mine(s, csv, r) && good(csv, r) ? atvi_record_number(csv, r, line->name, ".rank") : NAN;
    if (!(rank >= 0 && rank <= L)) continue;
    double z = atvi_sbc_score((atvi_idx)rank);
    count[(atvi_idx)rank]++;
    line->bin[(atvi_idx)rank * ATVI_SBC_BINS / K]++;
    line->n++;
    sum += z;
    square += z * z / unit;
  }
  line->p_band = line->p_spread = line->mean_z = line->sd_z = NAN;
  line->inside = line->fine = true; /* nothing speaks against it */
  if (line->n == 0) return ATVI_OK;
  ATVI_TRY(test_for(ctx, s, line->n, ecdf, n_ecdf));
  line->mean_z = sum / (double)line->n;
  line->sd_z = sqrt(square / (double)line->n);
  line->p_spread = atvi_sbc_spread(line->n, square);
  line->p_band = atvi_ecdf_p(*ecdf, count);
  atvi_ecdf_band(*ecdf, BAND, line->low, line->high);
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

static atvi_status count_rows(atvi_ctx *ctx, atvi_pool *pool, const atvi_csv *csv, atvi_sbc *s) {
  atvi_idx cap = 0;
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    if (!mine(s, csv, r)) continue;
    if (good(csv, r)) {
      s->n_done++;
      s->seconds += atvi_record_number(csv, r, "", "seconds");
      for (int v = 0; v < 3; v++)
        s->n_verdict[v] += strcmp(atvi_record_text(csv, r, "verdict"), VERDICT[v]) == 0;
      continue;
    }
    s->n_failed++;
    if (!ATVI_PUSH(pool, s->failure, s->n_failure, cap)) break;
    s->failure[s->n_failure++] =
        atvi_pool_printf(pool, "replicate %.0f: %s", atvi_record_number(csv, r, "", "replicate"),
                         atvi_record_text(csv, r, "reason"));
  }
  return atvi_pool_failed(pool) ? ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory") : ATVI_OK;
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
  atvi_sbc_notice(*ecdf, n, s->level, &s->narrow, &s->wide);
  s->power = s->narrow >= 0.75 - SIGHT  ? ATVI_SBC_SHARP
             : s->narrow >= 0.5 - SIGHT ? ATVI_SBC_ROUGH
                                        : ATVI_SBC_BLIND;
  return ATVI_OK;
}

atvi_status atvi_sbc_count(atvi_ctx *ctx, atvi_pool *pool, const atvi_csv *record, atvi_sbc *s) {
  atvi_ecdf *ecdf = NULL;
  atvi_idx n_ecdf = 0;
  ATVI_TRY(count_rows(ctx, pool, record, s));
  s->level = OVERALL / (2 * (double)(s->n > 0 ? s->n : 1));
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; status == ATVI_OK && i < s->n; i++)
    status = count_line(ctx, s, record, &ecdf, &n_ecdf, &s->line[i]);
  s->fine = true;
  s->n_untested = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    atvi_sbc_line *l = &s->line[i];
    l->fine = !(l->p_band < s->level) && !(l->p_spread < s->level); /* NaN is no objection */
    s->fine = s->fine && l->fine;
    s->n_untested += l->n == 0;
  }
  if (status == ATVI_OK) status = look(ctx, s, &ecdf, &n_ecdf);
  atvi_ecdf_free(ecdf);
  return status;
}

/* ---- terminal ---- */

/* What is the matter, in two words. */
static const char *word(const atvi_sbc_line *l) {
  if (l->n == 0) return "no ranks";
  if (l->fine) return "";
  double far = 2.6 / sqrt((double)l->n); /* 1 % of means of z are further out; of its sd, at 0.7 of that */
  if (fabs(l->mean_z) > far * fmax(1, l->sd_z)) return l->mean_z > 0 ? "too low" : "too high";
  if (fabs(l->sd_z - 1) > 0.7 * far) return l->sd_z > 1 ? "too narrow" : "too wide";
  return "wrong shape";
}

/* By power, where nothing speaks against it. */
static const char *const WORD[] = {"-", "no sign", "yes"};
static const char *const WHOLE[] = {"too few replicates to tell", "no sign against it", "yes"};

static void sight(atvi_text *out, const atvi_sbc *s) {
  const char *more = s->n_done == 1 ? "" : "s";
  if (isnan(s->narrow) && isnan(s->wide)) {
    atvi_text_add(out, "with %td replicate%s no wrong posterior would surely be noticed\n", s->n_done, more);
    return;
  }
  atvi_text_add(out, "may go unnoticed with %td replicate%s: sds too small by ", s->n_done, more);
  if (isnan(s->narrow))
    atvi_text_add(out, "whatever factor, too large by ");
  else
    atvi_text_add(out, "a factor of %.3g, too large by ", 1 / s->narrow);
  if (isnan(s->wide))
    atvi_text_add(out, "whatever factor\n");
  else
    atvi_text_add(out, "%.3g\n", s->wide);
}

atvi_status atvi_sbc_text(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_text_add(&out, "%s, method %s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->method,
                s->replicates, s->replicates == 1 ? "" : "s", s->seed);
  atvi_text_add(&out, "%td fit%s, %td failed; verdicts: %td ok, %td warn, %td bad; %.3g s a fit\n", s->n_done,
                s->n_done == 1 ? "" : "s", s->n_failed, s->n_verdict[0], s->n_verdict[1], s->n_verdict[2],
                s->n_done ? s->seconds / (double)s->n_done : 0);
  if (s->scale_sd != 1)
    atvi_text_add(&out, "posterior draws were scaled about their mean by %g: this should be noticed\n",
                  s->scale_sd);
  atvi_text_add(&out, "\n%-14s %-7s %8s %8s %6s  %s\n", "", "95 %", "p band", "p spread", "sd z",
                "ranks of the truth, ten bins");
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_sbc_line *l = &s->line[i];
    atvi_text_add(&out, "%-14.30s %-7s", l->name, l->n == 0 ? "" : l->inside ? "inside" : "outside");
    if (l->n)
      atvi_text_add(&out, " %8.2g %8.2g %6.2f ", l->p_band, l->p_spread, l->sd_z);
    else
      atvi_text_add(&out, " %25s", "");
    for (int b = 0; b < ATVI_SBC_BINS; b++) atvi_text_add(&out, " %3td", l->bin[b]);
    const char *how = !l->fine ? "NO" : l->n == 0 ? "not known" : WORD[s->power];
    atvi_text_add(&out, "  %s%s%s\n", how, *word(l) ? ", " : "", word(l));
  }
  atvi_text_add(&out, "\ncalibrated at 99 %% over all quantities: ");
  if (s->fine && s->n_untested)
    atvi_text_add(&out, "not known, %td of %td %s no ranks\n", s->n_untested, s->n,
                  s->n_untested == 1 ? "has" : "have");
  else
    atvi_text_add(&out, "%s\n", s->fine ? WHOLE[s->power] : "NO");
  if (s->fine && s->n_done) sight(&out, s);
  for (atvi_idx i = 0; i < s->n_failure; i++)
    atvi_text_add(&out, "%sfailed: %.200s\n", i ? "" : "\n", s->failure[i]);
  return atvi_text_get(&out, text);
}

/* ---- files ---- */

atvi_status atvi_sbc_csv(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_text_add(&out, "quantity,u,difference,low95,high95\n");
  for (atvi_idx i = 0; i < s->n; i++)
    for (int k = 0; s->line[i].n && k < L; k++) {
      const atvi_sbc_line *l = &s->line[i];
      atvi_app_field(&out, l->name);
      atvi_text_add(&out, ",%.4g,%.9g,%.9g,%.9g\n", (double)(k + 1) / K, l->difference[k], l->low[k],
                    l->high[k]);
    }
  return atvi_text_get(&out, text);
}

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* null where there are too few replicates to tell, or no ranks */
static json_t *calibrated(const atvi_sbc *s, bool fine, bool tested) {
  return fine && (s->power == ATVI_SBC_BLIND || !tested) ? json_null() : json_boolean(fine);
}

static json_t *line_json(atvi_pool *pool, const atvi_sbc *s, const atvi_sbc_line *l) {
  json_t *o = json_object(), *bins = json_array();
  for (int b = 0; b < ATVI_SBC_BINS; b++) json_array_append_new(bins, json_integer(l->bin[b]));
  json_object_set_new(o, "name", atvi_json_word(pool, l->name));
  json_object_set_new(o, "kind", json_string(l->derived ? "derived" : "parameter"));
  json_object_set_new(o, "ranks", json_integer(l->n));
  json_object_set_new(o, "histogram", bins);
  json_object_set_new(o, "inside95", l->n ? json_boolean(l->inside) : json_null());
  json_object_set_new(o, "p_band", number(l->p_band));
  json_object_set_new(o, "p_spread", number(l->p_spread));
  json_object_set_new(o, "mean_z", number(l->mean_z));
  json_object_set_new(o, "sd_z", number(l->sd_z));
  json_object_set_new(o, "calibrated", calibrated(s, l->fine, l->n > 0));
  return o;
}

atvi_status atvi_sbc_json(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  json_t *root = json_object(), *lines = json_array(), *failures = json_array(), *verdicts = json_object();
  json_object_set_new(root, "model", atvi_json_word(pool, s->model));
  json_object_set_new(root, "method", json_string(s->method));
  json_object_set_new(root, "seed", atvi_json_seed(pool, s->seed));
  json_object_set_new(root, "replicates", json_integer(s->replicates));
  json_object_set_new(root, "done", json_integer(s->n_done));
  json_object_set_new(root, "failed", json_integer(s->n_failed));
  for (int v = 0; v < 3; v++) json_object_set_new(verdicts, VERDICT[v], json_integer(s->n_verdict[v]));
  json_object_set_new(root, "verdicts", verdicts);
  json_object_set_new(root, "scale_sd", json_real(s->scale_sd));
  json_object_set_new(root, "seconds", json_real(s->seconds));
  json_object_set_new(root, "level", json_real(s->level));
  json_object_set_new(root, "calibrated", calibrated(s, s->fine, s->n_untested == 0));
  json_object_set_new(root, "noticed",
                      json_pack("{s:o,s:o}", "sd_below", number(s->narrow), "sd_above", number(s->wide)));
  for (atvi_idx i = 0; i < s->n; i++) json_array_append_new(lines, line_json(pool, s, &s->line[i]));
  json_object_set_new(root, "quantities", lines);
  for (atvi_idx i = 0; i < s->n_failure; i++)
    json_array_append_new(failures, atvi_json_word(pool, s->failure[i]));
  json_object_set_new(root, "failures", failures);
  char *dump = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  *text = dump ? atvi_pool_printf(pool, "%s\n", dump) : NULL;
  free(dump);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
}
