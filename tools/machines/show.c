/* Prints machines: a line for each, or one as YAML. */
#include "tools/machines/show.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"

static void print_line(const sl__machine_description *m, FILE *to) {
  char gpus[64] = "none", network[32] = "none", price[32] = "unknown";
  if (m->gpu.count)
    snprintf(gpus, sizeof gpus, "%d of %.1f TFLOP/s, %.0f GB", m->gpu.count, 1e-12 * m->gpu.peak.fp32,
             1e-9 * m->gpu.memory);
  if (m->network.latency > 0) snprintf(network, sizeof network, "%.3g GB/s", 1e-9 * m->network.per_node);
  if (m->price > 0) snprintf(price, sizeof price, "%.2f %s", m->price, m->currency);
  fprintf(to, "%-12s %6d %8.2f  %-26s %11s %11s\n", m->name, m->cpu.cores, 1e-12 * m->cpu.peak.fp32 * m->cpu.cores,
          gpus, network, price);
}

sl_status sl__machines_print(FILE *to) {
  fprintf(to, "%-12s %6s %8s  %-26s %11s %11s\n", "machine", "cores", "TFLOP/s", "GPUs", "network", "price/h");
  for (int i = 0; i < sl__machines(); i++) {
    sl__machine_description m;
    SL_TRY(sl__machine_describe(sl__machine_name(i), &m));
    print_line(&m, to);
  }
  fprintf(to, "Of one node, in fp32. 'starling info --machine NAME' prints all of a machine, with sources.\n");
  return SL_OK;
}

sl_status sl__machines_print_json(FILE *to) {
  json_t *list = json_array();
  sl_status status = SL_OK;
  for (int i = 0; i < sl__machines() && status == SL_OK; i++) {
    sl__machine_description m;
    status = sl__machine_describe(sl__machine_name(i), &m);
    if (status == SL_OK &&
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:f, s:i, s:f, s:f}", "name", m.name, "source", m.source, "cores",
                            m.cpu.cores, "core_flops", m.cpu.peak.fp32, "gpus", m.gpu.count, "gpu_flops",
                            m.gpu.peak.fp32, "network_bytes_per_s", m.network.per_node)) != 0)
      status = sl_no_memory("for the list of machines");
  }
  if (status == SL_OK) status = sl_json_print(to, list, 9);
  json_decref(list);
  return status;
}

sl_status sl__machine_show(const char *name, FILE *to) {
  sl__machine_description m;
  char *text;
  size_t n;
  SL_TRY(sl__machine_describe(name, &m));
  for (int i = 0; i < sl__machines(); i++)
    if (strcmp(sl__machine_name(i), name) == 0) {
      const char *file = sl__machine_text(i, &n);
      fwrite(file, 1, n, to);
      return SL_OK;
    }
  SL_TRY(sl__machine_to_yaml(&m, &text));
  fputs(text, to);
  free(text);
  return SL_OK;
}
