/* Lesson 15: calls the functions of ways.c by the number of the way. */
#ifndef RUN_H
#define RUN_H

#include "questions.h"

shares shares_of(const job *j, int way);
void run(const job *j, int way, part *p);
double formula(const job *j, int way);

#endif
