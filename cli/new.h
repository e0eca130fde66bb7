/* SPDX-License-Identifier: MIT */
/* Files of the folders that `atvi new` makes. They are in cli/new/KIND/ and are compiled in
 * (cmake/embed.cmake). */
#ifndef ATVI_CLI_NEW_H
#define ATVI_CLI_NEW_H

typedef struct {
  /* "sir"; NULL ends the table. */
  const char *kind;
  /* model.atvi and data.csv get the name of the folder. */
  const char *name;
  /* @NAME@ stands for that name. */
  const char *text;
} atvi_new_file;

extern const atvi_new_file atvi_new_files[];

#endif
