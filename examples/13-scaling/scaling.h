/* Lesson 13: what is known of a job before it runs on many nodes, and what is predicted from it. */
#ifndef SCALING_H
#define SCALING_H

/* Times of a training step in milliseconds. */
typedef struct job {
  double one_ms;          /* on one node */
  double two_ms;          /* on two nodes, each with half of the batch, without a network */
  double megabytes;       /* of all gradients of a node, 10^6 bytes */
  double gigabytes_per_s; /* that a node sends, and receives at the same time */
  double latency_us;      /* until a short message arrives */
} job;

/* The part of a step that is not divided: each node does all of it, on any number of nodes. */
double undivided_ms(const job *j);
/* Time in which n nodes sum their gradients, so that each has the sum; n is a power of 2. */
double exchange_ms(const job *j, int n);
/* Strong scaling: the batch of one node, divided among n. */
double strong_ms(const job *j, int n);
/* Weak scaling: n nodes, each with the batch that one had. */
double weak_ms(const job *j, int n);
/* The largest of 1, 2, 4, ... 32 nodes with that efficiency or more in strong scaling. The efficiency is the speedup
 * over one node, divided by the number of nodes. */
int most_nodes(const job *j, double efficiency);

#endif
