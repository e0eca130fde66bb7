/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

bool atvi_call_open(atvi_call *s, const atvi_command *command, atvi_idx threads, bool quiet) {
  *s = (atvi_call){.command = command};
  if (atvi_ctx_new(NULL, &s->ctx) != ATVI_OK || atvi_pool_new(s->ctx, &s->pool) != ATVI_OK) {
    fprintf(stderr, "atvi: out of memory\n");
    atvi_call_close(s);
    return false;
  }
  atvi_ctx_set_threads(s->ctx, threads > INT_MAX ? INT_MAX : (int)threads);
  atvi_show_attach(s->ctx, quiet);
  return true;
}

void atvi_call_close(atvi_call *s) {
  atvi_pool_free(s->pool);
  atvi_ctx_free(s->ctx);
}

int atvi_call_fail(const atvi_call *s, atvi_status status) {
  atvi_show_end();
  const char *message = atvi_errmsg(s->ctx);
  /* Messages about the model name their own place in the file. */
  bool placed = status == ATVI_EMODEL || status == ATVI_EDATA;
  if (!placed) fprintf(stderr, "%satvi %s:%s ", atvi_show_strong(), s->command->name, atvi_show_plain());
  fprintf(stderr, "%s\n", message[0] ? message : atvi_status_name(status));
  const char *advice = atvi_app_advice(atvi_errcode(s->ctx));
  if (advice) fprintf(stderr, "%s\n", advice);
  switch (status) {
  case ATVI_EMODEL:
  case ATVI_EDATA: return ATVI_EXIT_USAGE;
  case ATVI_EINVAL:
    fprintf(stderr, "'atvi %s --help' lists the options.\n", s->command->name);
    return ATVI_EXIT_USAGE;
  case ATVI_ESTOP: return ATVI_EXIT_STOPPED;
  default: return ATVI_EXIT_FAILED;
  }
}

static int no_memory(void) {
  fprintf(stderr, "atvi: out of memory\n");
  return false;
}

bool atvi_call_sets(const atvi_call *s, const char *option, const atvi_arg_list *list, atvi_idx *n,
                    const atvi_app_set **out) {
  atvi_app_set *set = atvi_pool_take(s->pool, (size_t)list->n + 1, sizeof *set);
  if (!set) return no_memory();
  *n = list->n, *out = set;
  for (int i = 0; i < list->n; i++) {
    const char *text = list->text[i], *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
      fprintf(stderr, "atvi %s: --%s %s: want name=value, such as --%s beta=0.9 or --%s beta.1=0.9\n",
              s->command->name, option, text, option, option);
      return false;
    }
    set[i].name = atvi_pool_strndup(s->pool, text, (size_t)(equals - text));
    set[i].value = equals + 1;
    if (!set[i].name) return no_memory();
  }
  return true;
}

bool atvi_call_data(const atvi_call *s, const atvi_arg_list *list, atvi_idx *n, const atvi_data_file **out) {
  atvi_data_file *file = atvi_pool_take(s->pool, (size_t)list->n + 1, sizeof *file);
  if (!file) return no_memory();
  *n = list->n, *out = file;
  for (int i = 0; i < list->n; i++) {
    const char *text = list->text[i], *equals = strchr(text, '=');
    /* A path may contain `=`; the name of a data set contains no slash. */
    bool named = equals && equals > text && !memchr(text, '/', (size_t)(equals - text));
    file[i].path = named ? equals + 1 : text;
    if (!named) continue;
    file[i].name = atvi_pool_strndup(s->pool, text, (size_t)(equals - text));
    if (!file[i].name) return no_memory();
  }
  return true;
}

bool atvi_call_model(const atvi_call *s, const atvi_arg_list *fix, const atvi_arg_list *data,
                     atvi_app_model *model) {
  return atvi_call_sets(s, "fix", fix, &model->n_fix, &model->fix) &&
         atvi_call_data(s, data, &model->n_data, &model->data);
}

int atvi_print(const char *text) { return atvi_print_judged(text, 0, NULL); }

int atvi_print_judged(const char *text, atvi_idx n, const atvi_app_mark *judged) {
  bool ok = true;
  size_t at = 0;
  atvi_show_end();
  errno = 0;
  for (atvi_idx i = 0; i < n && ok; i++) {
    ok = fwrite(text + at, 1, judged[i].at - at, stdout) == judged[i].at - at &&
         atvi_show_verdict(judged[i].verdict);
    at = judged[i].at + strlen(atvi_verdict_name(judged[i].verdict));
  }
  if (ok && fputs(text + at, stdout) >= 0 && fflush(stdout) == 0) return ATVI_EXIT_DONE;
  fprintf(stderr, "atvi: cannot write to standard output: %s\n", strerror(errno));
  return ATVI_EXIT_FAILED;
}

int atvi_call_repeated(const atvi_call *s, const atvi_app_repeat_result *r, bool json, bool quiet) {
  char line[2 * PATH_MAX];
  if (r->stopped) {
    atvi_show_end();
    fprintf(stderr, "atvi %s: interrupted; the same command continues %s\n", s->command->name, r->dir);
    if (r->unfinished && atvi_signals_usr1()) atvi_app_share_requeue(s->ctx);
    return ATVI_EXIT_STOPPED;
  }
  int code = quiet ? ATVI_EXIT_DONE : atvi_print(json && !r->shared ? r->json : r->text);
  if (code == ATVI_EXIT_DONE && !json) {
    snprintf(line, sizeof line, quiet ? "%s\n" : r->shared ? "\nfolder: %s\n" : "\nwritten to %s\n", r->dir);
    code = atvi_print(line);
  }
  if (r->unfinished && r->late) atvi_app_share_requeue(s->ctx);
  if (r->shared) return code;
  return code == ATVI_EXIT_DONE && r->done == 0 ? ATVI_EXIT_FAILED : code;
}
