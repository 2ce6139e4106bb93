/* Lesson 13: predicts how training scales, by scaling.c. It reads the questions that judge.c made from standard input:
 * a number, then a line for each job, with a least efficiency. It writes answers to descriptor 3: the number, then for
 * each job the undivided part of a step, three lists of times on 1, 2, 4, ... 32 nodes (a network that takes no time,
 * strong scaling, weak scaling), and the most nodes with that efficiency. It says nothing about right and wrong:
 * judge.c does. */
#include <math.h>
#include <stdio.h>

#include "scaling.h"

enum { MOST = 32 };

int main(void) {
  char number[64], line[256];
  double efficiency;
  job j;
  FILE *answers = fdopen(3, "w");
  if (!answers || scanf("%63s ", number) != 1) return puts("no questions on standard input: use make run"), 2;
  fprintf(answers, "%s\n", number);
  printf("nodes      1      2      4      8     16     32\n");
  while (fgets(line, sizeof line, stdin) && sscanf(line, "%lf %lf %lf %lf %lf %lf", &j.one_ms, &j.two_ms, &j.megabytes,
                                                   &j.gigabytes_per_s, &j.latency_us, &efficiency) == 6) {
    job ideal = j;
    ideal.gigabytes_per_s = INFINITY, ideal.latency_us = 0;
    fprintf(answers, "%.9g", undivided_ms(&j));
    for (int n = 1; n <= MOST; n *= 2) fprintf(answers, " %.9g", strong_ms(&ideal, n));
    for (int n = 1; n <= MOST; n *= 2) fprintf(answers, " %.9g", strong_ms(&j, n));
    for (int n = 1; n <= MOST; n *= 2) fprintf(answers, " %.9g", weak_ms(&j, n));
    fprintf(answers, " %d\n", most_nodes(&j, efficiency));
    printf("strong");
    for (int n = 1; n <= MOST; n *= 2) printf(" %6.1f", strong_ms(&j, n));
    printf(" ms\nweak  ");
    for (int n = 1; n <= MOST; n *= 2) printf(" %6.1f", weak_ms(&j, n));
    printf(" ms\n");
  }
  return fclose(answers) != 0;
}
