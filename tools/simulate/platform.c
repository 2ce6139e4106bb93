/* Writes a platform of SimGrid (its XML, version 4): a host for each worker and for the host's memory, a link for each
 * direction between memory and GPU, and one between GPUs where they have their own; and StarPU's files of latencies and
 * bandwidths, by which dm* policies predict copies. Names of hosts, links and files are StarPU's. */
#include "tools/simulate/platform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"

typedef struct writer {
  const sl__machine_description *m;
  const char *folder;
  int cpus, gpus;
} writer;

static int peers(const writer *w) { return w->m->gpu.peer_link > 0; }

/* Bandwidth between two memories; 0 is the host's. GPUs without links of their own copy through the host's memory. */
static double bandwidth(const writer *w, int from, int to) {
  if (from == to) return 0;
  if (from && to) return peers(w) ? w->m->gpu.peer_link : w->m->gpu.link / 2;
  return w->m->gpu.link;
}
static double latency(const writer *w, int from, int to) {
  if (from == to) return 0;
  if (from && to) return peers(w) ? w->m->gpu.peer_latency : 2 * w->m->gpu.link_latency;
  return w->m->gpu.link_latency;
}

static sl_status save(const writer *w, const char *suffix, char *text, size_t n) {
  char *path;
  if (!text) return sl_no_memory("for the platform");
  if (asprintf(&path, "%s/bus/%s.%s", w->folder, SL__PLATFORM_HOST, suffix) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_file_replace(path, text, n);
  free(path), free(text);
  return status;
}

static void name_of(int memory, char name[32]) {
  if (memory == 0)
    strcpy(name, "RAM");
  else
    snprintf(name, 32, "CUDA%d", memory - 1);
}

static sl_status write_platform(const writer *w) {
  char *text = NULL, from[32], to[32];
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return sl_no_memory("for the platform");
  fputs(
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM 'https://simgrid.org/simgrid.dtd'>\n<platform version='4.1'>\n"
      "<config>\n<prop id='network/TCP-gamma' value='-1'/>\n<prop id='network/latency-factor' value='1'/>\n"
      "<prop id='network/bandwidth-factor' value='1'/>\n<prop id='network/crosstraffic' value='0'/>\n"
      "<prop id='network/weight-S' value='0.0'/>\n</config>\n<zone id='node' routing='Full'>\n"
      "<host id='MAIN' speed='1f'/>\n<host id='RAM' speed='1f'/>\n",
      f);
  for (int i = 0; i < w->cpus; i++) fprintf(f, "<host id='CPU%d' speed='1Gf'/>\n", i);
  for (int i = 0; i < w->gpus; i++)
    fprintf(f,
            "<host id='CUDA%d' speed='1Gf'><prop id='model' value='%s'/><prop id='memsize' value='%.0f'/>"
            "<prop id='memcpy_peer' value='%d'/></host>\n",
            i, SL__PLATFORM_HOST, w->m->gpu.memory, peers(w));
  for (int a = 0; a <= w->gpus; a++)
    for (int b = 0; b <= w->gpus; b++) {
      if (a == b || (a && b && !peers(w))) continue;
      name_of(a, from), name_of(b, to);
      fprintf(f, "<link id='%s-%s' bandwidth='%.0fBps' latency='%.9fs'/>\n", from, to, bandwidth(w, a, b),
              latency(w, a, b));
    }
  for (int a = 0; a <= w->gpus; a++)
    for (int b = 0; b <= w->gpus; b++) {
      if (a == b) continue;
      name_of(a, from), name_of(b, to);
      fprintf(f, "<route src='%s' dst='%s' symmetrical='NO'>", from, to);
      if (a && b && !peers(w))
        fprintf(f, "<link_ctn id='%s-RAM'/><link_ctn id='RAM-%s'/>", from, to);
      else
        fprintf(f, "<link_ctn id='%s-%s'/>", from, to);
      fputs("</route>\n", f);
    }
  fputs("</zone>\n</platform>\n", f);
  fclose(f);
  return save(w, "platform.v4.xml", text, n);
}

/* Writes a matrix with a row for each memory that copies leave, in microseconds or megabytes/s. */
static sl_status write_matrix(const writer *w, const char *suffix, double (*entry)(const writer *, int, int),
                              double unit) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return sl_no_memory("for the platform");
  for (int a = 0; a <= w->gpus; a++, fputc('\n', f))
    for (int b = 0; b <= w->gpus; b++) fprintf(f, "%.6f\t", entry(w, a, b) * unit);
  fclose(f);
  return save(w, suffix, text, n);
}

static sl_status write_config(const writer *w) {
  char *text = NULL;
  const int n = asprintf(&text, "%d\n1\n%d\n0\n0\n0\n0\n0\n0\n", w->cpus, w->gpus);
  return save(w, "config", n < 0 ? NULL : text, n < 0 ? 0 : (size_t)n);
}

static sl_status write_affinity(const writer *w) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return sl_no_memory("for the platform");
  for (int i = 0; i < w->gpus; i++) fprintf(f, "%d\t0\t\n", i);
  fclose(f);
  return save(w, "affinity", text, n);
}

sl_status sl__platform_write(const sl__machine_description *machine, const sl__node_share *share, const char *folder) {
  /* StarPU refuses a machine without a CPU, though no worker need use it. */
  const writer w = {.m = machine, .folder = folder, .cpus = share->cpus ? share->cpus : 1, .gpus = share->gpus};
  char *path;
  if (asprintf(&path, "%s/bus", folder) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_folder_make(path);
  free(path);
  SL_TRY(status);
  SL_TRY(write_platform(&w));
  SL_TRY(write_matrix(&w, "latency", latency, 1e6));
  SL_TRY(write_matrix(&w, "bandwidth", bandwidth, 1e-6));
  SL_TRY(write_affinity(&w));
  return write_config(&w);
}
