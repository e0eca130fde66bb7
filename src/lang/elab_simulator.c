/* SPDX-License-Identifier: MIT */
/* The simulator: how it is run, what reaches it, and what comes back.
 *
 * The command has fields {k}, {theta.1} or {theta[1]}; {{ and }} are braces. {here} is the folder of the
 * model. */
#include "io/arrays.h"
#include "io/file.h"
#include "lang/elab.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPLATE_MOST = 1 << 24, JOBS_MOST = 10000, RETRIES_MOST = 1000, SETTINGS_MOST = 1000 };

atvi_idx atvi_lang_elab_output(const elab *e, const char *name) {
  const atvi_lang_simulator *sim = &e->lang->simulator;
  for (atvi_idx i = 0; i < sim->n_output; i++)
    if (strcmp(sim->output[i].name, name) == 0) return i;
  return -1;
}

/* ---- the command ---- */

typedef enum { FIELD_END, FIELD_NAME, FIELD_WRONG } field_kind;

static bool is_name(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* The next field from *p on: name[n], *p behind it. END: there is none. WRONG: *p is a brace that begins or
 * ends no field. */
static field_kind next_field(const char **p, const char **name, size_t *n) {
  const char *s = *p;
  while (*s && ((*s != '{' && *s != '}') || s[1] == s[0])) s += *s == '{' || *s == '}' ? 2 : 1;
  *name = s + 1;
  *n = 0;
  *p = s;
  if (!*s) return FIELD_END;
  size_t before = strspn(s + 1, " \t"), end = before; /* as in templates: blanks around a name do not count */
  while (is_name((unsigned char)s[1 + end]) || (s[1 + end] && strchr("[],", s[1 + end]))) end++;
  *n = end + strspn(s + 1 + end, " \t");
  if (*s != '{' || end == before || s[1 + *n] != '}') return FIELD_WRONG;
  *p = s + *n + 2;
  return FIELD_NAME;
}

/* Parameters sorted by name, for looking up many. */
typedef struct {
  const char *name;
  atvi_idx index;
} named;

static int by_name(const void *a, const void *b) {
  const named *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static bool named_params(elab *e, named **out) {
  atvi_idx n = e->lang->n_param;
  if (!(*out = atvi_lang_take(e->s, n, sizeof **out))) return false;
  for (atvi_idx i = 0; i < n; i++) (*out)[i] = (named){e->lang->param[i].name, i};
  qsort(*out, (size_t)n, sizeof **out, by_name);
  return true;
}

/* -1: none; brackets of an element count as dots. */
static atvi_idx named_find(const elab *e, const named *param, const char *field, size_t n_field) {
  char text[ATVI_ARRAY_NAME];
  atvi_idx lo = 0, hi = e->lang->n_param;
  if (!atvi_io_array_dots(field, n_field, text)) return -1;
  while (lo < hi) {
    atvi_idx mid = (lo + hi) / 2;
    int c = strcmp(text, param[mid].name);
    if (c == 0) return param[mid].index;
    if (c < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return -1;
}

/* The model's folder from the root on; a run has a working folder of its own. */
static const char *folder_of_model(elab *e) {
  const char *path = e->s->path, *slash = strrchr(path, '/'), *out;
  int n = slash ? (int)(slash - path) : 0;
  char cwd[PATH_MAX];
  if (path[0] == '/')
    out = atvi_pool_strndup(e->s->pool, path, (size_t)n);
  else if (!getcwd(cwd, sizeof cwd))
    out = atvi_pool_strndup(e->s->pool, n ? path : ".", n ? (size_t)n : 1);
  else
    out = atvi_pool_printf(e->s->pool, "%s%s%.*s", cwd, n ? "/" : "", n, path);
  if (!out) atvi_lang_nomem(e->s);
  return out;
}

/* Text for the shell and for next_field alike: in quotes if need be, braces doubled. */
static const char *quoted(elab *e, const char *text) {
  bool plain = true;
  for (const char *p = text; *p; p++)
    plain = plain && (is_name((unsigned char)*p) || strchr("/+=:,@%-", *p) != NULL);
  if (plain) return text;
  char *out = atvi_lang_take(e->s, (atvi_idx)(4 * strlen(text) + 3), 1), *q = out;
  if (!out) return NULL;
  *q++ = '\'';
  for (const char *p = text; *p; p++) {
    if (*p == '\'')
      q += strlen(strcpy(q, "'\\''"));
    else
      *q++ = *p;
    if (*p == '{' || *p == '}') *q++ = *p;
  }
  strcpy(q, "'");
  return out;
}

/* Whether the first word is a path from the model's folder: it has a slash, and nothing in front of it for
 * the shell to work out. */
static bool local(const char *command) {
  size_t word = strcspn(command, " \t;|&<>"), slash = strcspn(command, "/");
  return slash < word && !strchr("/~${", command[0]) && memchr(command, '=', slash) == NULL;
}

static bool is_here(const char *name, size_t n) { return n == 4 && strncmp(name, "here", n) == 0; }

/* The command with {here} and a first word that is a path in the place where the model is. NULL: out of
 * memory. */
static const char *in_place(elab *e, const char *command, bool here_is_free) {
  const char *folder = folder_of_model(e), *shown = folder ? quoted(e, folder) : NULL, *p, *name;
  size_t n, times = 1;
  if (!shown) return NULL;
  while (*command == ' ' || *command == '\t') command++;
  bool is_local = local(command);
  if (is_local && strncmp(command, "./", 2) == 0) command += 2;
  for (p = command; next_field(&p, &name, &n) == FIELD_NAME;) times += is_here(name, n);
  char *out = atvi_lang_take(e->s, (atvi_idx)(strlen(command) + times * strlen(shown) + 2), 1), *q = out;
  if (!out) return NULL;
  if (is_local) q += strlen(strcat(strcpy(q, shown), "/"));
  for (p = command; here_is_free && next_field(&p, &name, &n) == FIELD_NAME;) {
    if (!is_here(name, n)) continue;
    memcpy(q, command, (size_t)(name - 1 - command));
    q += name - 1 - command;
    q += strlen(strcpy(q, shown));
    command = p;
  }
  strcpy(q, command);
  return out;
}

/* ---- inputs ---- */

/* Elements of a parameter: [*first, *first + *n). */
static bool input(elab *e, const ast_expr *x, atvi_idx *first, atvi_idx *n) {
  elab_symbol *sym = x->kind == EX_NAME && !x->qualifier ? x->word->symbol : NULL;
  if (!sym && x->kind == EX_NAME && !x->qualifier) return atvi_lang_unknown(e, x, false, NULL);
  if (!sym || sym->kind != SYM_PARAM) {
    atvi_lang_error(e->s, x->at, "inputs are names of parameters: inputs theta, kappa",
                    "an input must be a parameter");
    return false;
  }
  atvi_idx at[AST_MAX_DIM], k = 0;
  if (x->n) {
    for (atvi_idx d = 0; d < x->n; d++)
      if (!atvi_lang_whole(e, NULL, x->arg[d], "an index", &at[d])) return false;
    if ((k = atvi_lang_offset(e, sym, (int)x->n, at, x->at)) < 0) return false;
  }
  *first = sym->base + k;
  *n = x->n ? 1 : sym->total;
  return true;
}

bool atvi_lang_inputs(elab *e, const ast_setting *x, atvi_idx *n, const atvi_idx **out) {
  atvi_idx *list = atvi_lang_take(e->s, e->lang->n_param, sizeof *list), first = 0, count = 0;
  bool *seen = atvi_lang_take(e->s, e->lang->n_param, sizeof *seen);
  *n = 0;
  for (atvi_idx i = 0; list && seen && i < x->n; i++) {
    if (!input(e, x->value[i], &first, &count)) return false;
    for (atvi_idx k = first; k < first + count; k++) {
      if (seen[k]) {
        atvi_lang_error(e->s, x->value[i]->at, "keep one of them", "'%.60s' is listed twice as an input",
                        e->lang->param[k].name);
        return false;
      }
      seen[k] = true;
      list[(*n)++] = k;
    }
  }
  *out = list;
  return list && seen;
}

/* ---- fields ---- */

/* A place inside a text in quotes. */
static atvi_place within(const ast_setting *x, const char *p) {
  return (atvi_place){x->file_at.line, x->file_at.column + 1 + (int)(p - x->file)};
}

static bool unknown_field(elab *e, const ast_setting *x, const char *name, size_t n) {
  const char *text = atvi_pool_strndup(e->s->pool, name, n), *array = NULL;
  if (!text) return atvi_lang_nomem(e->s), false;
  ast_guess g = {.text = text};
  for (atvi_idx i = 0; i < e->lang->n_param; i++) {
    const char *param = e->lang->param[i].name;
    atvi_lang_guess(&g, param);
    if (!array && strncmp(param, text, n) == 0 && param[n] == '.') array = param;
  }
  const char *hint = "fields are the names of parameters; braces themselves are written {{ and }}";
  if (g.best) hint = atvi_pool_printf(e->s->pool, "did you mean {%s}?", g.best);
  if (array) hint = atvi_pool_printf(e->s->pool, "one element at a time: {%s}", array);
  atvi_lang_error(e->s, within(x, name - 1), hint,
                  array ? "'%.60s' is an array and cannot be a field" : "there is no parameter '%.60s'",
                  text);
  return false;
}

/* Marks the parameters in the command. */
static bool command_fields(elab *e, const ast_setting *x, const named *param, bool worker, bool *used,
                           atvi_idx *n_used) {
  const char *p = x->file, *name;
  size_t n;
  field_kind kind;
  while ((kind = next_field(&p, &name, &n)) == FIELD_NAME) {
    atvi_idx k = named_find(e, param, name, n);
    if (k < 0 && n == 4 && strncmp(name, "here", n) == 0) continue;
    if (k < 0) return unknown_field(e, x, name, n);
    if (worker) {
      atvi_lang_error(e->s, within(x, name - 1), "it reads the parameters of each run from standard input",
                      "a worker is started once, so its command cannot have parameters");
      return false;
    }
    *n_used += !used[k];
    used[k] = true;
  }
  if (kind == FIELD_END) return true;
  atvi_lang_error(e->s, within(x, p), "fields are written {name}; braces themselves are {{ and }}",
                  "this brace belongs to no field");
  return false;
}

/* Marks the parameters in a template, if it can be read: whoever runs it reports what is wrong with it. */
static bool template_fields(elab *e, const char *path, const named *param, bool *used, atvi_idx *n_used) {
  struct stat st;
  char *text;
  size_t length, n;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return true;
  atvi_status status = atvi_io_file_read_most(e->s->pool, path, TEMPLATE_MOST, &text, &length);
  if (status == ATVI_ENOMEM) return atvi_lang_nomem(e->s), false;
  if (status != ATVI_OK) return true;
  const char *p = text, *name;
  field_kind kind;
  while ((kind = next_field(&p, &name, &n)) != FIELD_END) {
    if (kind == FIELD_WRONG) p++;
    atvi_idx k = kind == FIELD_NAME ? named_find(e, param, name, n) : -1;
    if (k < 0) continue;
    *n_used += !used[k];
    used[k] = true;
  }
  return true;
}

/* Marks the parameters in the terms of observations. */
static bool term_params(elab *e, bool *used) {
  atvi_idx n = atvi_graph_size(e->g), top = 0;
  unsigned char *seen = atvi_lang_take(e->s, n, 1);
  atvi_node *stack = atvi_lang_take(e->s, n, sizeof *stack);
  if (!seen || !stack) return false;
  for (atvi_idx o = 0; o < e->lang->n_observe; o++)
    for (atvi_idx t = 0; t < e->lang->observe[o].n_term; t++)
      for (int a = 0; a < 2; a++) {
        atvi_node x = e->lang->observe[o].term[t].arg[a];
        if (x == ATVI_NODE_NONE || seen[x]) continue;
        seen[x] = 1;
        stack[top++] = x;
      }
  while (top > 0) {
    atvi_node_info info = atvi_graph_get(e->g, stack[--top]);
    if (info.op == ATVI_OP_INPUT && info.index2 == ATVI_IN_PARAM) used[info.index] = true;
    for (int k = 0; k < info.n_arg; k++)
      if (!seen[info.arg[k]]) {
        seen[info.arg[k]] = 1;
        stack[top++] = info.arg[k];
      }
  }
  return true;
}

static bool check_fields(elab *e, const ast_setting *command, const bool *used,
                         const atvi_lang_simulator *sim) {
  bool *listed = atvi_lang_take(e->s, e->lang->n_param, sizeof *listed);
  if (!listed) return false;
  for (atvi_idx i = 0; i < sim->n_input; i++) listed[sim->input[i]] = true;
  for (atvi_idx k = 0; k < e->lang->n_param; k++)
    if (used[k] && !listed[k]) {
      atvi_lang_error(e->s, command->file_at, "add it to the inputs, or leave 'inputs' out",
                      "the command has a field {%.60s}, which is not among the inputs",
                      e->lang->param[k].name);
      return false;
    }
  return true;
}

/* Variables without which few programs run, or that are ours. */
static bool check_variables(elab *e, const ast_stmt *st, const atvi_lang_simulator *sim) {
  static const char *const TAKEN[] = {"PATH", "HOME",   "SHELL",           "IFS",        "PWD",
                                      "LANG", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "ATVI_RUN",
                                      "ENV",  "USER",   "ATVI_MODEL_DIR",  "PYTHONPATH"};
  for (atvi_idx i = 0; sim->send_environment && i < sim->n_input; i++)
    for (size_t k = 0; k < sizeof TAKEN / sizeof *TAKEN; k++) {
      const char *name = e->lang->param[sim->input[i]].name;
      if (strcmp(name, TAKEN[k]) != 0) continue;
      atvi_lang_error(e->s, st->at, "give the parameter another name, or send it in another way",
                      "the parameter '%s' would take the place of an environment variable that programs need",
                      name);
      return false;
    }
  return true;
}

/* As `inputs` says; or the parameters in the command and the templates; or all that are no part of what is
 * added to the output. */
static bool find_inputs(elab *e) {
  const ast_stmt *st = e->simulator;
  atvi_lang_simulator *sim = &e->lang->simulator;
  named *param;
  if (!st) return true;
  const ast_setting *command = atvi_lang_setting(st, "command"), *inputs = atvi_lang_setting(st, "inputs");
  bool *used = atvi_lang_take(e->s, e->lang->n_param, sizeof *used);
  atvi_idx n = 0;
  if (!used || !named_params(e, &param) || !command_fields(e, command, param, sim->worker, used, &n))
    return false;
  bool here = named_find(e, param, "here", 4) < 0;
  if (!(sim->command = in_place(e, command->file, here))) return false;
  if (inputs)
    return atvi_lang_inputs(e, inputs, &sim->n_input, &sim->input) && check_fields(e, command, used, sim);
  if (!n && !sim->n_template && !sim->send_json && !sim->send_environment && !sim->worker) {
    atvi_lang_error(
        e->s, command->at,
        "{name} in the command, a template, 'send json', 'send environment' or 'worker' pass them on",
        "no parameter reaches the simulator");
    return false;
  }
  for (atvi_idx i = 0; i < sim->n_template; i++)
    if (!template_fields(e, sim->templates[i].from, param, used, &n)) return false;
  bool rest = n == 0;
  if (rest && !term_params(e, used)) return false;
  atvi_idx *list = atvi_lang_take(e->s, e->lang->n_param, sizeof *list);
  if (!list) return false;
  for (atvi_idx k = 0; k < e->lang->n_param; k++)
    if (used[k] != rest) list[sim->n_input++] = k;
  sim->input = list;
  if (sim->n_input) return true;
  atvi_lang_error(e->s, st->at, "name them: inputs k, m", "the simulator has no inputs");
  return false;
}

bool atvi_lang_simulator_inputs(elab *e) {
  return find_inputs(e) && (!e->simulator || check_variables(e, e->simulator, &e->lang->simulator));
}

/* ---- outputs and the rest ---- */

/* A file that is made by a run, in the folder of that run. */
static bool in_run(elab *e, const char *file, atvi_place at) {
  bool up = false;
  for (const char *p = file; p; p = strchr(p, '/')) {
    p += *p == '/';
    up = up || (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]));
  }
  if (*file && *file != '/' && !up) return true;
  atvi_lang_error(e->s, at, "every run has a folder of its own, in which its files are",
                  "'%.60s' is not inside the folder of a run", file);
  return false;
}

static bool position(const char *text) {
  return text[strspn(text, "0123456789")] == 0 && strtol(text, NULL, 10) >= 1;
}

static bool format(elab *e, const ast_setting *x, bool worker, atvi_lang_output *out) {
  if (worker) {
    out->format = "json";
    if (!x->file && (!x->format || strcmp(x->format, "json") == 0)) return true;
    atvi_lang_error(e->s, x->file ? x->file_at : x->format_at, "write just: output flow",
                    "the outputs of a worker are in the line of JSON that it answers");
    return false;
  }
  if (!x->from) {
    atvi_lang_error(e->s, x->name_at, "for example: output flow from \"out.csv\" csv, or from stdout json",
                    "the output '%.60s' has no source", x->name);
    return false;
  }
  const char *dot = x->file ? strrchr(x->file, '.') : NULL;
  out->format = x->format                          ? x->format
                : dot && strcmp(dot, ".csv") == 0  ? "csv"
                : dot && strcmp(dot, ".json") == 0 ? "json"
                                                   : NULL;
  if (!out->format) {
    atvi_lang_error(e->s, x->file_at, "there are csv, json, and columns (numbers between blanks)",
                    "the format of the output '%.60s' is not given", x->name);
    return false;
  }
  if (strcmp(out->format, "columns") != 0) return true;
  if (x->column && position(x->column) && (!x->time || position(x->time))) return true;
  atvi_lang_error(e->s,
                  x->column && position(x->column) ? x->time_at
                  : x->column                      ? x->column_at
                                                   : x->format_at,
                  "for example: columns column 2 time 1",
                  "'columns' have positions, counted from 1, not names");
  return false;
}

static bool output(elab *e, const ast_setting *x, bool worker, atvi_lang_output *out) {
  atvi_idx old = atvi_lang_elab_output(e, x->name);
  if (old >= 0) {
    atvi_lang_error(e->s, x->name_at, "give one of them another name",
                    "the output '%.60s' is given twice: line %d already has it", x->name,
                    e->lang->simulator.output[old].place.line);
    return false;
  }
  *out = (atvi_lang_output){
      .name = x->name, .file = x->file, .column = x->column, .time = x->time, .place = x->name_at};
  return atvi_lang_free_name(e, x->name, x->name_at) && format(e, x, worker, out) &&
         (!x->file || in_run(e, x->file, x->file_at));
}

static bool template(elab *e, const ast_setting *x, atvi_lang_simulator *sim, atvi_lang_template *out) {
  if (sim->worker) {
    atvi_lang_error(e->s, x->at, "it reads the parameters of each run from standard input",
                    "a worker is started once, so it cannot have templates");
    return false;
  }
  for (atvi_idx i = 0; i < sim->n_template; i++)
    if (strcmp(sim->templates[i].to, x->to) == 0) {
      atvi_lang_error(e->s, x->to_at, "every template makes a file of its own",
                      "two templates make '%.60s': line %d already does", x->to,
                      sim->templates[i].place.line);
      return false;
    }
  *out = (atvi_lang_template){atvi_lang_path_beside(e, x->file), x->to, x->file_at};
  return out->from && in_run(e, x->to, x->to_at);
}

static bool send(elab *e, const ast_setting *x, atvi_lang_simulator *sim) {
  bool json = strcmp(x->name, "json") == 0, *slot = json ? &sim->send_json : &sim->send_environment;
  if (!json && strcmp(x->name, "environment") != 0)
    atvi_lang_error(e->s, x->name_at, "there are 'send json' and 'send environment'",
                    "'%.60s' is not a way to send parameters", x->name);
  else if (sim->worker)
    atvi_lang_error(e->s, x->at, "remove the line", "a worker gets its parameters as lines of JSON");
  else if (*slot)
    atvi_lang_error(e->s, x->at, "keep one of them", "'send %s' is given twice", x->name);
  *slot = true;
  return e->s->status == ATVI_OK;
}

static bool limit(elab *e, const ast_setting *x, double *out) {
  static const struct {
    const char *unit;
    double seconds;
  } UNITS[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  double value, unit = x->name ? 0 : 1;
  if (!atvi_lang_number(e, NULL, x->value[0], "the limit", &value)) return false;
  for (size_t i = 0; x->name && i < sizeof UNITS / sizeof *UNITS; i++)
    if (strcmp(x->name, UNITS[i].unit) == 0) unit = UNITS[i].seconds;
  *out = value * unit;
  if (unit == 0)
    atvi_lang_error(e->s, x->name_at, "there are s, min, h and d: limit 30 min",
                    "'%.60s' is not a unit of time", x->name);
  else if (!(*out > 0 && *out < INFINITY))
    atvi_lang_error(e->s, x->value[0]->at, "for example: limit 30 min; without the line there is none",
                    "the limit must be above 0 and finite, not %g", value);
  return e->s->status == ATVI_OK;
}

static bool whole(elab *e, const ast_setting *x, atvi_idx least, atvi_idx most, int *out) {
  atvi_idx value;
  if (!x) return true;
  if (!atvi_lang_whole(e, NULL, x->value[0], x->word, &value)) return false;
  *out = (int)value;
  if (value >= least && value <= most) return true;
  atvi_lang_error(e->s, x->value[0]->at, "choose a number in that range",
                  "'%s' must be between %td and %td, not %td", x->word, least, most, value);
  return false;
}

static bool lists(elab *e, const ast_stmt *st, atvi_lang_simulator *sim) {
  atvi_lang_output *outputs = atvi_lang_take(e->s, st->settings.n, sizeof *outputs);
  atvi_lang_template *templates = atvi_lang_take(e->s, st->settings.n, sizeof *templates);
  if (!outputs || !templates) return false;
  if (st->settings.n > SETTINGS_MOST) {
    atvi_lang_error(e->s, st->at, "drop what is not needed", "more than %d settings", SETTINGS_MOST);
    return false;
  }
  sim->output = outputs;
  sim->templates = templates;
  for (atvi_idx i = 0; i < st->settings.n; i++) {
    const ast_setting *x = &st->settings.setting[i];
    if (strcmp(x->word, "output") == 0) {
      if (!output(e, x, sim->worker, &outputs[sim->n_output])) return false;
      sim->n_output++;
    } else if (strcmp(x->word, "template") == 0) {
      if (!template(e, x, sim, &templates[sim->n_template])) return false;
      sim->n_template++;
    } else if (strcmp(x->word, "send") == 0 && !send(e, x, sim))
      return false;
  }
  return true;
}

bool atvi_lang_elab_simulator(elab *e) {
  atvi_lang_simulator *sim = &e->lang->simulator;
  sim->limit_s = INFINITY;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind != KW_SIMULATOR) continue;
    if (e->simulator) {
      atvi_lang_error(e->s, st->at, "one program may have several outputs",
                      "a model has one simulator: line %d already has it", e->simulator->at.line);
      return false;
    }
    e->simulator = st;
  }
  const ast_stmt *st = e->simulator;
  if (!st) return true;
  sim->given = true;
  sim->place = st->at;
  sim->worker = atvi_lang_setting(st, "worker") != NULL;
  const ast_setting *command = atvi_lang_setting(st, "command"), *at_most = atvi_lang_setting(st, "limit");
  if (!command || !command->file[strspn(command->file, " \t")]) {
    atvi_lang_error(e->s, command ? command->file_at : st->at, "for example: command \"./catchment {k} {m}\"",
                    "the simulator has no command");
    return false;
  }
  if (!lists(e, st, sim)) return false;
  if (!sim->n_output) {
    atvi_lang_error(e->s, st->at, "for example: output flow from \"out.csv\" csv",
                    "the simulator has no output");
    return false;
  }
  return (!at_most || limit(e, at_most, &sim->limit_s)) &&
         whole(e, atvi_lang_setting(st, "jobs"), 1, JOBS_MOST, &sim->jobs) &&
         whole(e, atvi_lang_setting(st, "retries"), 0, RETRIES_MOST, &sim->retries);
}
