/* Which tasks of a step wait for which: all that the analysis of a recording needs to know of the graph. */
#ifndef SL_DEPENDENCIES_H
#define SL_DEPENDENCIES_H

/* Node i waits for the nodes before[from[i]] ... before[from[i + 1] - 1]. */
typedef struct sl_dependencies {
  int n;
  const int *from, *before;
} sl_dependencies;

#endif
