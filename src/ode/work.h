/* SPDX-License-Identifier: MIT */
/* Inside of the solvers: the scratch of one thread, the tape, and the kernels.
 *
 * A lane runs while its step h > 0; a lane that is done or has failed has h = 0 and tstop = t, so that
 * every kernel computes for it a step of length 0, which is never accepted. No other mask is needed.
 *
 * Order of one adaptive iteration: propose (steps that land on stops), try (new state, slope there, error),
 * judge (which lanes accept, next step), tape, commit (move the accepted lanes), stops. */
#ifndef ATVI_ODE_WORK_H
#define ATVI_ODE_WORK_H

#include "core/core.h"
#include "ode/ode.h"

enum { ATVI_ODE_STAGES = 7, ATVI_ODE_ALL = (1 << ATVI_LANES) - 1 };

/* Runge-Kutta method: stage i uses a[i][j], j < i (explicit) or j <= i; the new state is row `stages` of an
 * explicit method and the last stage of an implicit one. e: weights of the error estimate. */
typedef struct {
  int stages;
  int weights; /* entries of e */
  double c[ATVI_ODE_STAGES];
  double a[ATVI_ODE_STAGES][ATVI_ODE_STAGES];
  double e[ATVI_ODE_STAGES];
} atvi_ode_tableau;

extern const atvi_ode_tableau atvi_ode_tsit5, atvi_ode_rk4, atvi_ode_esdirk4;

/* One record of the tape: a step of the lanes in `mask` (the others have h = 0), or a pulse on them. Followed
 * by the state before it, [n][L], and if w->tape.keeps by the stages 2 .. 6. */
typedef struct atvi_ode_record {
  _Alignas(ATVI_ALIGN) double t[ATVI_LANES], tnew[ATVI_LANES], h[ATVI_LANES];
  int32_t seg[ATVI_LANES]; /* the stop whose tab holds during the step; for a pulse, the stop itself */
  unsigned mask, landed;   /* landed: lanes that arrive at stop seg + 1 */
  /* what moves the instant at which the lane sets out or is pulsed, numbered as in events.c; -1: it does not
   * move */
  int32_t mover[ATVI_LANES];
  int32_t echo[ATVI_LANES];    /* with delays: the number of that instant, see events.c; -1: none */
  uint32_t passed[ATVI_LANES]; /* jumps that lie behind */
  int32_t pulse;               /* -1: a step */
  int32_t moving;              /* the moving pulse that it is; -1: another */
  /* with delays: the steps of each lane before and after this one; -1: none */
  int32_t prev[ATVI_LANES], next[ATVI_LANES];
} atvi_ode_record;

/* With delays, an instant of one lane at which a root has acted, or at which such an instant comes again. */
typedef struct {
  double t;
  double bar; /* what its later echoes owe to its time, on the way back */
  double dot; /* the tangent of its time */
  int32_t lane;
  int32_t from;  /* the instant that comes again; -1: it is not an echo */
  int32_t delay; /* after this delay */
  int32_t order; /* how often it has come again */
  int32_t mover; /* not an echo: what moves it */
  bool done;
} atvi_ode_echo;

typedef struct atvi_ode_kernels atvi_ode_kernels;

struct atvi_ode_work {
  _Alignas(ATVI_ALIGN) double t[ATVI_LANES], tstop[ATVI_LANES];
  double h[ATVI_LANES]; /* step wished for next */
  int32_t seg[ATVI_LANES];
  unsigned run; /* lanes that are not done and have not failed */
  atvi_outcome outcome[ATVI_LANES];
  double *y; /* [n][L] at t */

  struct { /* the step being tried */
    _Alignas(ATVI_ALIGN) double tnew[ATVI_LANES];
    double hs[ATVI_LANES];  /* h, or what lands on the stop */
    double e2[ATVI_LANES];  /* squared error in units of the tolerance; NaN: not finite; inf: Newton failed */
    double acc[ATVI_LANES]; /* 1: accepted */
    double *ynew, *scale, *err; /* [n][L] */
    double *k;                  /* [7][n][L] slopes; the last is the slope at ynew */
    double *ys, *stages;        /* [7][n][L] stages, in the tape or else here */
  } trial;
  struct {                                           /* of steps */
    _Alignas(ATVI_ALIGN) double longest[ATVI_LANES]; /* wished for since the last look at what is to come */
    double grow[ATVI_LANES];                         /* most a step may grow: little after a rejection */
    double smax[ATVI_LANES];                         /* largest scale */
    double tol_rel, tol_abs;
    double first; /* first step in units of 1 / rate: tol^(1/order) and a constant */
    double fade;  /* the size of a state so far counts this much after another step */
    int root;     /* the error is of order h^(root/2): 10 or 8 */
    double span;  /* last stop - first stop */
  } control;
  struct { /* of steps; as reals, they are counted with the rest */
    _Alignas(ATVI_ALIGN) double accepted[ATVI_LANES], rejected[ATVI_LANES];
    atvi_ode_effort effort;
  } count;
  struct { /* what programs see, of the present call */
    _Alignas(ATVI_ALIGN) double one[ATVI_LANES];
    double ts[ATVI_LANES], start[ATVI_LANES];
    const double *frozen; /* [L] the time, where it stands still */
    atvi_idx n_par, n_tab;
    const double *par;
    double *zero;                     /* [n][L] */
    double *tab;                      /* [n_tab][L] */
    const double *tab_of[ATVI_LANES]; /* what each lane of tab was copied from */
    double *scratch;
  } prog;
  struct {                       /* instants that move, and stops at which the slope changes */
    bool any;                    /* some instants move */
    uint32_t passed[ATVI_LANES]; /* as in the records */
    int32_t mover[ATVI_LANES];   /* of the instant at which the lane is */
    unsigned *done;              /* [n_moving] masks of lanes in which a moving pulse has acted */
    const atvi_ode_stop *stop;   /* whose span and fresh these are */
    bool *fresh;                 /* [n_stop] the slope changes at this stop: new tab, or a pulse */
  } instants;
  struct
  { /* on the tape: lanes at rest whatever the way there, their states, and the jumps that lie behind */
    unsigned lanes;
    double *y; /* [n][L] */
    uint32_t passed[ATVI_LANES];
  } rest;
  struct {                         /* conditions of pulses, and what happened at them */
    double *g, *gtry, *holds;      /* [roots.n][L] values at t, on trial, and which hold */
    double last_fired[ATVI_LANES]; /* when one has acted last */
    double gfired[ATVI_LANES];     /* g there, by rounding above 0 */
    double skip[ATVI_LANES]; /* after this length of the step g is below 0 where it has just been released */
    int close[ATVI_LANES];   /* events in a row, each right after the one before */
    uint64_t on[ATVI_LANES];
    atvi_idx fired[ATVI_LANES]; /* how often one has acted */
    double *mid;                /* [n][L] inside a step */
  } roots;
  struct {
    atvi_idx n;
    const atvi_ode *ode;         /* of the present call, with delays only */
    double *past;                /* [n][L] the initial state */
    double *past_bar, *past_dot; /* [n][L] its adjoint and its tangent */
    double *dbar;                /* [n_delay][L] */
    int32_t *hint;               /* [n_delay][L] where each was found last */
    int32_t newest[ATVI_LANES];  /* the latest step of each lane */
    double middle[ATVI_LANES];   /* of the present step */
    double tbar_seventh[ATVI_LANES];
    /* on the way back: a step leaves out what later steps have handed to it, or hands nothing to earlier ones */
    bool untaken, unhanded;
  } delay;
  struct {
    atvi_ode_echo *of; /* [n] */
    atvi_idx n, cap;
    atvi_idx low;                /* all before it are done */
    int32_t instant[ATVI_LANES]; /* where the lane is, if it is at one; -1 */
  } echoes;
  struct { /* the way back */
    /* adjoints of times, see events.c; the others are those of a step */
    _Alignas(ATVI_ALIGN) double tbar[ATVI_LANES];
    double hbar[ATVI_LANES], tbar_end[ATVI_LANES], tbar_start[ATVI_LANES];
    bool noting;
    double rev[ATVI_ODE_STAGES][ATVI_ODE_STAGES]; /* columns of the tableau, last stage first */
    double *lam;                                  /* [n][L] adjoint of the state */
    double *save;                                 /* [n_par][L] */
    double *kk, *yend;                            /* [7][n][L] its slopes, [n][L] the state at its end */
    double *lam2, *par2;                          /* [n][L], [n_par][L] */
  } back;

  atvi_ctx *ctx;
  const atvi_ode_kernels *kern;
  atvi_idx n;
  struct {                        /* tangents, see tangent.c; only if they may be asked for */
    double *ydot;                 /* [n][L] of the state so far */
    double *yend, *yend_dot;      /* [n][L] at the end of a step */
    double *stage, *stage_dot;    /* [n][L] */
    double *k, *kdot;             /* [7][n][L] */
    double *right, *off, *unused; /* [n][L] of a linear system; results that are not needed */
    double *tab;                  /* as tab; 0 but for delayed states */
    double *g;                    /* [4][roots.n + 1][L] */
    unsigned tied;                /* lanes in which the instant after a step falls on a stop */
  } dual;

  struct {                       /* systems of implicit steps, STIFF */
    double *lu, *lu2;            /* [n][n][L] */
    double *jac;                 /* [n_entry][L] of the shape */
    const atvi_ode_shape *shape; /* of the problem, or else dense */
    atvi_ode_shape dense;
    int32_t *tables;     /* of dense */
    int32_t *piv, *piv2; /* [n][L] */
  } linear;
  struct {
    bool on, keeps;                   /* keeps: records hold the stages too */
    atvi_outcome outcome[ATVI_LANES]; /* of the solve on it */
    size_t stride;                    /* bytes of a record with its states */
    char *bytes;
    atvi_idx n, cap;
    /* records after which a solve goes on without the tape, and the lanes that then ran */
    atvi_idx most;
    unsigned beyond;
  } tape;
};

struct atvi_ode_kernels {
  void (*propose)(atvi_ode_work *w);
  unsigned (*judge)(atvi_ode_work *w);  /* accepted lanes, and those rejected << ATVI_LANES */
  unsigned (*commit)(atvi_ode_work *w); /* lanes that are now at their stop, among the accepted */
  /* The lanes among `landed` that leave segment seg: output to `to` unless NULL, next segment, stop at
   * `next`. */
  unsigned (*pass)(atvi_ode_work *w, int32_t seg, unsigned landed, double next, double *to);
  /* The way back: lam of the lanes among `landed` that left segment seg gains `from` unless NULL. */
  unsigned (*meet)(atvi_ode_work *w, const atvi_ode_record *r, unsigned landed, int32_t seg,
                   const double *from);
  /* to = from, [n][L], in the lanes of mask */
  void (*put)(atvi_idx n, unsigned mask, const double *from, double *to);
  void (*refresh)(const atvi_ode *ode, atvi_ode_work *w, unsigned mask); /* slopes k[0] of these lanes anew */
  void (*first_step)(const atvi_ode *ode, atvi_ode_work *w);             /* h from the slope at y, k[0] */
  void (*tsit5)(const atvi_ode *ode, atvi_ode_work *w);
  void (*rk4)(const atvi_ode *ode, atvi_ode_work *w);
  void (*esdirk)(const atvi_ode *ode, atvi_ode_work *w);
  /* lam before the step from lam after it; parbar grows, also in lanes that did not take part */
  void (*explicit_adjoint)(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_tableau *tb,
                           const atvi_ode_record *r, double *parbar);
  void (*esdirk_adjoint)(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar);
  /* a[n][n][L], piv = factors of I - h g J(t, y), where g is that of the implicit stages */
  void (*factor)(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *y, const double *h,
                 double *a, int32_t *piv);
  void (*lu)(const atvi_ode_shape *s, atvi_idx n, double *a, int32_t *piv);
  void (*lu_solve)(const atvi_ode_shape *s, atvi_idx n, const double *a, const int32_t *piv, double *b);
  void (*lu_solve_t)(const atvi_ode_shape *s, atvi_idx n, const double *a, const int32_t *piv, double *b);
};

/* The kernels for an instruction set this build has. */
const atvi_ode_kernels *atvi_ode_kernels_of(atvi_isa isa);

/* Declares the variants of a function in an *_isa.c file. */
#define ATVI_ODE_VARIANTS(ret, name, ...)                                                                    \
  ret name##_base(__VA_ARGS__);                                                                              \
  ret name##_avx2(__VA_ARGS__);                                                                              \
  ret name##_avx512(__VA_ARGS__)

ATVI_ODE_VARIANTS(void, atvi_ode_propose, atvi_ode_work *w);
ATVI_ODE_VARIANTS(unsigned, atvi_ode_judge, atvi_ode_work *w);
ATVI_ODE_VARIANTS(unsigned, atvi_ode_commit, atvi_ode_work *w);
ATVI_ODE_VARIANTS(unsigned, atvi_ode_pass, atvi_ode_work *w, int32_t seg, unsigned landed, double next,
                  double *to);
ATVI_ODE_VARIANTS(unsigned, atvi_ode_meet, atvi_ode_work *w, const atvi_ode_record *r, unsigned landed,
                  int32_t seg, const double *from);
ATVI_ODE_VARIANTS(void, atvi_ode_put, atvi_idx n, unsigned mask, const double *from, double *to);
ATVI_ODE_VARIANTS(void, atvi_ode_refresh, const atvi_ode *ode, atvi_ode_work *w, unsigned mask);
ATVI_ODE_VARIANTS(void, atvi_ode_first_step, const atvi_ode *ode, atvi_ode_work *w);
ATVI_ODE_VARIANTS(void, atvi_ode_tsit5_try, const atvi_ode *ode, atvi_ode_work *w);
ATVI_ODE_VARIANTS(void, atvi_ode_rk4_step, const atvi_ode *ode, atvi_ode_work *w);
ATVI_ODE_VARIANTS(void, atvi_ode_esdirk_try, const atvi_ode *ode, atvi_ode_work *w);
ATVI_ODE_VARIANTS(void, atvi_ode_explicit_adjoint, const atvi_ode *ode, atvi_ode_work *w,
                  const atvi_ode_tableau *tb, const atvi_ode_record *r, double *parbar);
ATVI_ODE_VARIANTS(void, atvi_ode_esdirk_adjoint, const atvi_ode *ode, atvi_ode_work *w,
                  const atvi_ode_record *r, double *parbar);
ATVI_ODE_VARIANTS(void, atvi_ode_factor, const atvi_ode *ode, atvi_ode_work *w, const double *t,
                  const double *y, const double *h, double *a, int32_t *piv);
/* Squared error of each lane in units of the tolerance, to w->e2: from w->err, or from seven slopes and
 * weights. */
ATVI_ODE_VARIANTS(void, atvi_ode_measure, atvi_ode_work *w);
ATVI_ODE_VARIANTS(void, atvi_ode_measure_slopes, atvi_ode_work *w, const double *e);
/* Linear systems of all lanes, a[n][n][L] with reordered states; what lies outside of the shape is not read.
 * Factors in place with partial pivoting, lane by lane; solves A x = b and A^T x = b in place, b in the order
 * of the states. A singular lane gives numbers that are not finite, in that lane. */
ATVI_ODE_VARIANTS(void, atvi_ode_lu, const atvi_ode_shape *s, atvi_idx n, double *a, int32_t *piv);
ATVI_ODE_VARIANTS(void, atvi_ode_lu_solve, const atvi_ode_shape *s, atvi_idx n, const double *a,
                  const int32_t *piv, double *b);
ATVI_ODE_VARIANTS(void, atvi_ode_lu_solve_t, const atvi_ode_shape *s, atvi_idx n, const double *a,
                  const int32_t *piv, double *b);

/* delay.c: puts the delayed states of times t[L] into tab. */
void atvi_ode_delay_fill(const atvi_ode *ode, atvi_ode_work *w, const double *t);

static inline double *atvi_ode_record_y(const atvi_ode_record *r) { return (double *)(r + 1); }

static inline atvi_ode_record *atvi_ode_record_at(const atvi_ode_work *w, atvi_idx i) {
  return (atvi_ode_record *)(w->tape.bytes + (size_t)i * w->tape.stride);
}

static inline void atvi_ode_run(atvi_ode_work *w, const atvi_prog *p, const double *t, const double *y,
                                const double *lam, double *out, double *parbar) {
  const double *in[5] = {w->prog.frozen ? w->prog.frozen : t, y, w->prog.par, w->prog.tab, lam};
  double *outs[4] = {out, parbar, w->back.tbar, w->delay.dbar};
  if (w->delay.n && (p == &w->delay.ode->rhs || p == &w->delay.ode->vjp || p == &w->delay.ode->jac))
    atvi_ode_delay_fill(w->delay.ode, w, t);
  atvi_graph_prog_run(p, w->prog.scratch, in, outs);
}

/* The next free record, or NULL if the tape cannot grow. It counts once w->tape.n is raised. */
atvi_ode_record *atvi_ode_tape_next(atvi_ode_work *w);
/* Puts the jumps that lie behind lane l into its tab. */
void atvi_ode_set_passed(const atvi_ode *ode, atvi_ode_work *w, int l, uint32_t passed);
/* Puts the tab of stop `seg` into lane l. */
void atvi_ode_set_tab(const atvi_ode *ode, atvi_ode_work *w, int l, atvi_idx seg);
/* Prepares for the stops of this problem, where those before were another's. */
void atvi_ode_aim(const atvi_ode *ode, atvi_ode_work *w);
/* Stops a lane; with an outcome that says why. */
void atvi_ode_park(atvi_ode_work *w, int l);
void atvi_ode_fail_lane(atvi_ode_work *w, int l, atvi_outcome outcome);
/* Applies a pulse, that of moving pulse `moving` if that is not -1, to the lanes in mask. False: the tape is
 * full. */
bool atvi_ode_apply_pulse(const atvi_ode *ode, atvi_ode_work *w, atvi_idx pulse, atvi_idx moving,
                          unsigned mask);
/* Puts what moving pulse k sees into the tab of the lanes in mask. */
void atvi_ode_set_moving(const atvi_ode *ode, atvi_ode_work *w, atvi_idx k, unsigned mask);
/* The adjoint of one step: lam before it from lam after it; parbar grows. */
void atvi_ode_step_back(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar);

/* events.c: at the start, before any pulse. */
void atvi_ode_events_begin(const atvi_ode *ode, atvi_ode_work *w);
/* Lanes that have arrived somewhere pass the instants of par that they have reached, and look for the next
 * one. Adds the lanes whose slope changed to *fresh. False: the tape is full. */
bool atvi_ode_pass_moving(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes, bool start, unsigned *fresh);
/* Shortens the accepted steps in which a root becomes positive. which[l]: the root at which the step of lane
 * l ends, or -1. */
void atvi_ode_locate(const atvi_ode *ode, atvi_ode_work *w, unsigned accepted,
                     void (*attempt)(const atvi_ode *, atvi_ode_work *), int which[ATVI_LANES]);
/* The pulses of those roots, and, in the lanes that have just moved, of all others that are positive now and
 * were not. As atvi_ode_pass_moving. */
bool atvi_ode_fire(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes, const int *which, unsigned *fresh);
/* Lanes at a root whose pulse leaves g as it was, 0, and has it fall from there: the condition no longer
 * holds. */
void atvi_ode_release(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes);
/* Forward: the number of the root that a mover is, or -1; the tangent of the time of an instant that another
 * mover or an echo moves. */
int32_t atvi_ode_root_of(const atvi_ode *ode, int32_t mover);
double atvi_ode_time_tangent(const atvi_ode *ode, const atvi_ode_work *w, int32_t mover, int32_t echo,
                             const double *pardot, int l);
/* What the way back knows of the instant at the end of the step that comes next. */
typedef struct {
  int32_t mover[ATVI_LANES], echo[ATVI_LANES];
  atvi_idx record[ATVI_LANES]; /* the earliest there: holds the state */
  double bar[ATVI_LANES];      /* adjoint of its time, as far as it is known */
} atvi_ode_instant;
/* Takes the adjoint of a pulse's time in, or goes back over a step of which an end moves. */
void atvi_ode_instant_pulse(const atvi_ode_work *w, atvi_idx i, atvi_ode_instant *at);
void atvi_ode_instant_tied(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r,
                           atvi_ode_instant *at, double *parbar);
void atvi_ode_moving_back(const atvi_ode *ode, atvi_ode_work *w, atvi_idx i, atvi_ode_instant *at,
                          double *parbar);
/* Called by the adjoints of steps for every stage where w->back.noting: kbar [n][L] is the adjoint of its
 * slope. */
void atvi_ode_note_stage(atvi_ode_work *w, int stage, const double *kbar);
void atvi_ode_note_time(atvi_ode_work *w, double c); /* after its vjp */

/* delay.c: doubles of a record for slopes and what is handed over; the start of a run; a step that is taped;
 * steps not longer than the delays; the step in which programs run next. */
size_t atvi_ode_delay_room(atvi_idx n);
void atvi_ode_delay_begin(atvi_ode_work *w, const double *y0);
void atvi_ode_delay_record(atvi_ode_work *w, atvi_ode_record *r, unsigned mask);
void atvi_ode_delay_limit(const atvi_ode *ode, atvi_ode_work *w);
void atvi_ode_delay_middle(atvi_ode_work *w, const double *t, const double *h);
/* On the way back: at first; after each vjp at times t; what stage `stage` of the step was handed, times
 * sign, added to kbar; the slope at the end of a step before the step itself, its state after it, and the
 * adjoints of the times of its ends. */
void atvi_ode_delay_back_begin(atvi_ode_work *w);
void atvi_ode_delay_hand(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *me, const double *t,
                         double *parbar);
void atvi_ode_delay_take(const atvi_ode_work *w, const atvi_ode_record *r, int stage, double sign,
                         double *kbar);
void atvi_ode_delay_end(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar);
void atvi_ode_delay_start(atvi_ode_work *w, const atvi_ode_record *r);
void atvi_ode_delay_ends(const atvi_ode_work *w, const atvi_ode_record *r, double *start, double *end);
/* Tangents of delayed states at times t with tangents tdot (NULL: 0), to tabdot, which is laid out as tab;
 * without pardot what is past stays as it is. Those of a step, with slopes in w->dual.kdot, for later
 * ones. */
void atvi_ode_delay_tangent(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *tdot,
                            const double *pardot, double *tabdot);
void atvi_ode_delay_keep_tangent(const atvi_ode_work *w, const atvi_ode_record *r, const double *ydot,
                                 const double *start, const double *end);

/* steady.c: the first step, chosen as if the run were as long as the states take to change by as much as they
 * are; the state of lanes that have come to rest is the output; that state to rounding, where it can be
 * had. */
void atvi_ode_first_step_to_rest(const atvi_ode *ode, atvi_ode_work *w);
void atvi_ode_stop_at_rest(const atvi_ode *ode, atvi_ode_work *w, double *yout);
void atvi_ode_settle(const atvi_ode *ode, atvi_ode_work *w, bool tape, double *y);
/* The adjoint in lanes that are settled. */
void atvi_ode_adjoint_rest(const atvi_ode *ode, atvi_ode_work *w, const double *ybar, double *y0bar,
                           double *parbar);

/* The tangent in lanes that are settled. */
void atvi_ode_tangent_rest(const atvi_ode *ode, atvi_ode_work *w, const double *pardot, double *youtdot);

/* path.c: the slopes of the stages of a step, to w->back.kk. Those of implicit stages come from the stages,
 * as in the step. */
void atvi_ode_slopes(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r);
/* Weights of the slopes of a step at q in (0, 1), those at its ends being the first and, but for STIFF, the
 * seventh. slope: their derivatives, [7] or NULL. Slopes that a method does not have get weight 0. */
void atvi_ode_dense_weights(atvi_ode_method method, double q, double b[7], double *slope);

/* Number of equal steps from stop s to the next (RK4, MAP). */
atvi_idx atvi_ode_substeps(const atvi_ode *ode, atvi_idx s);

#endif
