/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <string.h>

static const char *const after[] = {
    "FORMATS",
    "nc     netCDF-4 in the layout of ArviZ's InferenceData, as atvi fit writes\n"
    "       it: posterior, sample_stats, weighted_posterior,\n"
    "       posterior_predictive, log_likelihood, observed_data, prior\n"
    "       (DIR/fit.nc); also: netcdf\n"
    "csv    a table without comments, for spreadsheets and data frames: chain__,\n"
    "       draw__, lp__, log_lik__, log_prior__, parameters, derived quantities\n"
    "       (DIR/draws-table.csv)\n"
    "stan   Stan CSV as CmdStan writes it, one file per chain: FILE_1.csv, ...\n"
    "       (DIR/stan.csv, or DIR/stan_1.csv, ...)\n"
    "json   draws as in posteriordb, and beside them their diagnostics\n"
    "       (DIR/draws.json, DIR/draws.info.json)\n"
    "docs/formats.md has details and shows how to read them in Python and R.\n",
    "EXIT STATUS",
    "0   done\n"
    "1   failed: the fit cannot be read, the file cannot be written or exists\n"
    "    already, or there is no netCDF library\n"
    "2   wrong usage, or there is no such fit\n",
    "ENVIRONMENT",
    "ATVI_NETCDF   the netCDF library to use, if it is not where the system\n"
    "              looks for libraries\n"
    "SOURCE_DATE_EPOCH\n"
    "              seconds since 1970 for created_at of fit.nc, instead of the\n"
    "              current time: the same fit then gives the same bytes\n",
    "EXAMPLES",
    "atvi export cold-001 --format nc --out cold.nc\n"
    "atvi export cold-001 --format csv --out - | head\n"
    "atvi export cold.atvi --format json --weighted\n",
    NULL,
};

typedef struct {
  atvi_app_export_opts to;
  atvi_arg_list data;
  atvi_idx threads;
  bool quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  const atvi_arg arg[] = {
      {"format", "FORMAT", ATVI_ARG_TEXT, &o->to.format, "nc, csv, stan or json; see FORMATS."},
      {"out", "FILE", ATVI_ARG_TEXT, &o->to.out,
       "File to write (default: one in the folder of the fit). - is standard output (csv only)."},
      {"force", NULL, ATVI_ARG_FLAG, &o->to.force,
       "Overwrite FILE if it exists. Files in the folder of the fit are overwritten without it, except "
       "fit.nc when the model cannot be run now, since the old file may contain more."},
      {"weighted", NULL, ATVI_ARG_FLAG, &o->to.weighted,
       "csv, json: the weighted draws of atvi, nf or copula, with their weights in column weight__, instead "
       "of draws that count equally."},
      {"data", "[NAME=]FILE", ATVI_ARG_LIST, &o->data,
       "nc: where a data file of the fit is now, if it was moved."},
      {"folder", "DIR", ATVI_ARG_TEXT, &o->to.fit.folder,
       "nc: where the files that the model names are now, if they were moved."},
      ATVI_ROW_THREADS(&o->threads),
      ATVI_ROW_NO_COMPILE(&o->to.fit.interpret),
      {"quiet", NULL, ATVI_ARG_FLAG, &o->quiet, "Print only warnings."},
      {0},
  };
  return atvi_args_parse(&atvi_cmd_export, arg, argc, argv, &o->to.fit.where);
}

static int run(int argc, char **argv) {
  options o = {0};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;
  bool pipe = o.to.out && strcmp(o.to.out, "-") == 0;
  if (pipe && o.to.format && strcmp(o.to.format, "csv") != 0) {
    fprintf(stderr, "atvi export: --out -: only csv goes to standard output\n");
    return ATVI_EXIT_USAGE;
  }
  if (pipe) o.to.out = "/dev/stdout";

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_export, o.threads, true)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_data(&s, &o.data, &o.to.fit.n_data, &o.to.fit.data)) {
    const char *text = "";
    atvi_status status = atvi_app_export(s.ctx, s.pool, &o.to, &text);
    code = status != ATVI_OK ? atvi_call_fail(&s, status)
           : o.quiet || pipe ? ATVI_EXIT_DONE
                             : atvi_print(text);
    if (status == ATVI_EEXIST) fprintf(stderr, "Use --force to overwrite it, or choose another --out.\n");
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_export = {
    .name = "export",
    .brief = "write the draws of a fit for another program",
    .usage = "DIR | MODEL --format nc|csv|stan|json [--out FILE] [--force]\n"
             "            [--weighted]",
    .operand = "DIR",
    .about = "Writes the draws of a finished fit, from the folder DIR or the newest numbered folder here of "
             "a fit of MODEL, in the format of another program, and prints the names of the files.\n\n"
             "Without --weighted the draws are those of draws.csv, which count equally and which any program "
             "can use as they are. The summary of a weighted fit is computed from the weighted draws, so it "
             "differs from theirs by Monte Carlo error.",
    .after = after,
    .run = run,
};
