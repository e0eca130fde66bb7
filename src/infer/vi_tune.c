/* SPDX-License-Identifier: MIT */
/* Fine-tuning with smoothed weights: a few small steps on the forward divergence KL(p || q), whose gradient is that of
 * weights, held constant, times the path gradient of log pi - log q. It widens q where the posterior is wider, which is what k-hat
 * complains of. (Weights times the full gradient, as the method was published, have expectation zero.) It is judged on
 * fresh draws, the same before and after, and undone unless they are worth more. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum { TUNE_STEPS = 40, TUNE_DRAWS = 512 };
#define TUNE_STEP 5e-4
#define TUNE_CLIP 1.0
#define TUNE_AVERAGE 0.9
#define SAME 0.995 /* effective sizes in this ratio are no difference: k-hat decides */

bool atvi_vi_tune(atvi_vi *v, atvi_member *m) {
  size_t bytes = (size_t)v->size * sizeof(double);
  uint32_t fresh = v->scramble++;
  atvi_elbo_room room = {v->look.theta, v->weight, v->work};
  atvi_vi_quality before = atvi_vi_judge(v, m, fresh);
  memcpy(v->best, m->phi, bytes);
  memcpy(v->avg, m->phi, bytes);
  atvi_adam_reset(v->adam);
  for (int k = 0; k < TUNE_STEPS && !atvi_vi_over(v); k++) {
    atvi_elbo_grad_forward(v->elbo, m, TUNE_DRAWS, v->scramble++, &room, v->grad);
    double norm = 0;
    for (atvi_idx i = 0; i < v->size; i++) norm += v->grad[i] * v->grad[i];
    norm = sqrt(norm);
    for (atvi_idx i = 0; i < v->size && norm > TUNE_CLIP; i++) v->grad[i] *= TUNE_CLIP / norm;
    atvi_adam_set_step(v->adam, TUNE_STEP * (1 - (double)k / TUNE_STEPS));
    atvi_adam_step(v->adam, m->phi, v->grad);
    for (atvi_idx i = 0; i < v->size; i++)
      v->avg[i] = TUNE_AVERAGE * v->avg[i] + (1 - TUNE_AVERAGE) * m->phi[i];
    v->steps++;
    atvi_vi_tell(v, "fine-tuning", 0.8, "step %d of %d", k + 1, TUNE_STEPS);
  }
  memcpy(m->phi, v->avg, bytes);
  atvi_vi_quality after = atvi_vi_judge(v, m, fresh);
  bool helped = after.share > before.share || (after.share > SAME * before.share && after.khat < before.khat);
  if (!helped) memcpy(m->phi, v->best, bytes);
  return helped;
}
