/* Divides a node's cores among its ranks, and a rank's cores among its workers. */
#include "runtime/processors/topology.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A usable core and its NUMA domain. */
typedef struct unit {
  hwloc_obj_t object;
  int domain;       /* number in order of appearance */
  unsigned node;    /* operating system index of the domain's first NUMA node */
  unsigned logical; /* hwloc's number of the core */
  int npu;          /* number of its usable PUs */
} unit;

/* The cores of the node, ordered by domain. */
typedef struct machine {
  hwloc_const_cpuset_t allowed;
  int ncores, ndomains;
  unit *core; /* [ncores] */
  int *size;  /* [ndomains] cores of each domain */
} machine;

static int usable_pus(hwloc_obj_t object, hwloc_const_cpuset_t allowed) {
  int n = 0;
  for (int pu = hwloc_bitmap_first(object->cpuset); pu >= 0; pu = hwloc_bitmap_next(object->cpuset, pu))
    n += hwloc_bitmap_isset(allowed, (unsigned)pu);
  return n;
}

/* Usable PU number n of a core, modulo their count. */
static unsigned pu_of(const machine *m, const unit *core, int n) {
  n %= core->npu;
  int pu = hwloc_bitmap_first(core->object->cpuset);
  for (;; pu = hwloc_bitmap_next(core->object->cpuset, pu))
    if (hwloc_bitmap_isset(m->allowed, (unsigned)pu) && n-- == 0) return (unsigned)pu;
}

static int by_domain(const void *a, const void *b) {
  const unit *x = a, *y = b;
  return x->domain != y->domain ? x->domain - y->domain : x->logical < y->logical ? -1 : 1;
}

static void forget(machine *m) {
  free(m->core);
  free(m->size);
}

static sl_status survey(const sl_topology_request *request, machine *m) {
  hwloc_topology_t topology = request->topology;
  memset(m, 0, sizeof *m);
  m->allowed = request->allowed ? request->allowed : hwloc_topology_get_allowed_cpuset(topology);
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  int n = hwloc_get_nbobjs_by_type(topology, type);
  if (n <= 0) n = hwloc_get_nbobjs_by_type(topology, type = HWLOC_OBJ_PU); /* the system reports no cores */
  if (n <= 0) return sl_fail(SL_ETOPOLOGY, "hwloc sees no processor on this machine");
  m->core = calloc((size_t)n, sizeof *m->core);
  m->size = calloc((size_t)n, sizeof *m->size);
  if (!m->core || !m->size) {
    forget(m);
    return sl_no_memory("for a list of %d cores", n);
  }
  for (int i = 0; i < n; i++) {
    hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, (unsigned)i);
    const int npu = usable_pus(object, m->allowed);
    if (npu == 0) continue;
    const int node = object->nodeset ? hwloc_bitmap_first(object->nodeset) : 0;
    unit *u = &m->core[m->ncores++];
    *u = (unit){.object = object, .node = node < 0 ? 0 : (unsigned)node, .logical = object->logical_index, .npu = npu};
    u->domain = m->ndomains;
    for (int j = 0; j < m->ncores - 1; j++)
      if (m->core[j].node == u->node) {
        u->domain = m->core[j].domain;
        break;
      }
    if (u->domain == m->ndomains) m->ndomains++;
    m->size[u->domain]++;
  }
  if (m->ncores == 0) {
    forget(m);
    return sl_fail(SL_ETOPOLOGY, "this process may use none of the machine's %d cores (cpuset, taskset, cgroup)", n);
  }
  qsort(m->core, (size_t)m->ncores, sizeof *m->core, by_domain);
  return SL_OK;
}

/* The functions below set first[0 .. ranks]: rank r gets cores first[r] .. first[r + 1] - 1. */

static void split_evenly(const machine *m, int ranks, int *first) {
  for (int r = 0; r <= ranks; r++) first[r] = (int)((int64_t)r * m->ncores / ranks);
}

/* For ranks <= domains: cuts only between domains, each time as near as possible to the cut of an even division. */
static void split_by_domains(const machine *m, int ranks, int *first) {
  int domain = 0, cores = 0;
  first[0] = 0;
  for (int r = 1; r < ranks; r++) {
    const int last = m->ndomains - (ranks - r); /* leave one domain for each later rank */
    cores += m->size[domain++];
    while (domain < last) {
      const int64_t target = (int64_t)r * m->ncores, here = (int64_t)cores * ranks,
                    next = (int64_t)(cores + m->size[domain]) * ranks;
      if (llabs(next - target) >= llabs(here - target)) break;
      cores += m->size[domain++];
    }
    first[r] = cores;
  }
  first[ranks] = m->ncores;
}

/* For ranks > domains: each rank in turn joins the domain that then has most cores per rank (D'Hondt); a domain's cores
 * are divided evenly. */
static sl_status split_in_domains(const machine *m, int ranks, int *first) {
  int *count = malloc((size_t)m->ndomains * sizeof *count);
  if (!count) return sl_no_memory("for sharing out %d domains", m->ndomains);
  for (int d = 0; d < m->ndomains; d++) count[d] = 1;
  for (int r = m->ndomains; r < ranks; r++) {
    int best = 0;
    for (int d = 1; d < m->ndomains; d++)
      if ((int64_t)m->size[d] * (count[best] + 1) > (int64_t)m->size[best] * (count[d] + 1)) best = d;
    count[best]++;
  }
  int rank = 0, start = 0;
  for (int d = 0; d < m->ndomains; start += m->size[d++])
    for (int i = 0; i < count[d]; i++) first[rank++] = start + (int)((int64_t)i * m->size[d] / count[d]);
  first[ranks] = m->ncores;
  free(count);
  return SL_OK;
}

/* Finds this rank's part of the machine: cores [*begin, *end). If whole domains gave some rank less than half of an
 * even part (a cpuset may allow few cores of a domain), all ranks get even parts instead. */
static sl_status split(const machine *m, int ranks, int rank, int *begin, int *end) {
  if (ranks > m->ncores) {
    *begin = rank % m->ncores;
    *end = *begin + 1;
    return SL_OK;
  }
  int *first = malloc(((size_t)ranks + 1) * sizeof *first);
  if (!first) return sl_no_memory("for sharing out %d cores", m->ncores);
  sl_status status = SL_OK;
  if (ranks <= m->ndomains)
    split_by_domains(m, ranks, first);
  else
    SL_TRY_OUT(split_in_domains(m, ranks, first));
  for (int r = 0; r < ranks; r++)
    if ((int64_t)2 * (first[r + 1] - first[r]) * ranks < m->ncores) {
      split_evenly(m, ranks, first);
      break;
    }
  *begin = first[rank];
  *end = first[rank + 1];
out:
  free(first);
  return status;
}

/* Places teams of K on cores [0, n): start[i] is the first core of team i. Teams stay inside a domain if any
 * domain has K cores; else they follow one another across domains. Fills at most n entries; returns how many teams. */
static int place_teams(const unit *core, int n, int k, int *start) {
  int teams = 0, largest = 0;
  for (int i = 0, run = 0; i < n; i++) {
    run = i && core[i].domain == core[i - 1].domain ? run + 1 : 1;
    if (run > largest) largest = run;
  }
  for (int i = 0, run = 0; i < n; i++) {
    if (k <= largest && i && core[i].domain != core[i - 1].domain) run = 0;
    if (++run < k) continue;
    start[teams++] = i + 1 - k;
    run = 0;
  }
  return teams;
}

/* The smallest K whose teams use the most cores, within StarPU's number of workers and the quota. */
static int automatic_threads(const unit *core, int n, int budget, int max_workers, int *start) {
  int best = 1, best_used = 0;
  for (int k = 1; k <= n && k <= budget; k++) {
    int teams = place_teams(core, n, k, start);
    if (teams > budget / k) teams = budget / k;
    if (max_workers && teams > max_workers) teams = max_workers;
    if (teams * k > best_used) best = k, best_used = teams * k;
  }
  return best;
}

/* Makes team i of a share. The first teams begin at cores start[0 .. teams); later ones use the same cores again, on
 * second hyperthreads if there are any. */
static sl_status make_place(const machine *m, const unit *core, int n, int k, const int *start, int teams, int i,
                            sl_place *place) {
  place->pu = calloc((size_t)k, sizeof *place->pu);
  place->core = calloc((size_t)k, sizeof *place->core);
  place->domain = calloc((size_t)k, sizeof *place->domain);
  if (!place->pu || !place->core || !place->domain) return sl_no_memory("for the places of %d threads", k);
  const int from = teams ? start[i % teams] : 0, round = teams ? i / teams : i;
  for (int t = 0; t < k; t++) {
    const unit *u = &core[(from + t) % n];
    place->pu[t] = pu_of(m, u, round + (from + t) / n);
    place->core[t] = u->logical;
    int known = 0;
    while (known < place->domains && place->domain[known] != u->node) known++;
    if (known == place->domains) place->domain[place->domains++] = u->node;
  }
  place->threads = k;
  return SL_OK;
}

/* Reserves cores for `aside` GPU drivers by moving them behind the others, in the drivers' order: for each the last
 * free core on its GPU's NUMA node or, if there is none, the last free core. */
static void set_aside(unit *core, int cores, int aside, const int *gpu_domain) {
  for (int i = aside - 1; i >= 0; i--, cores--) {
    int taken = cores - 1;
    while (gpu_domain && taken >= 0 && (int)core[taken].node != gpu_domain[i]) taken--;
    if (taken < 0) taken = cores - 1;
    const unit driver = core[taken];
    memmove(core + taken, core + taken + 1, (size_t)(cores - 1 - taken) * sizeof *core);
    core[cores - 1] = driver;
  }
}

static int less(int a, int b) { return a < b ? a : b; }
static int more(int a, int b) { return a > b ? a : b; }

static sl_status check(const sl_topology_request *q) {
  if (!q->topology) return sl_fail(SL_EINVAL, "no hwloc topology to divide");
  if (q->ranks < 1 || q->rank < 0 || q->rank >= q->ranks)
    return sl_fail(SL_EINVAL, "rank %d of %d ranks of this node does not exist", q->rank, q->ranks);
  if (q->threads_per_worker < 0 || q->threads_per_worker > 4096)
    return sl_blame(sl_fail(SL_EINVAL, "%d threads per worker: give 0 (automatic) or more", q->threads_per_worker),
                    "threads_per_worker");
  if (q->workers < -1 || q->drivers < 0 || q->max_workers < 0 || !(q->quota >= 0))
    return sl_fail(SL_EINVAL, "the numbers of workers, GPUs and cores cannot be negative");
  if (q->max_workers && q->workers > q->max_workers)
    return sl_blame(
        sl_fail(SL_ETOPOLOGY,
                "%d CPU workers were asked for but the installed StarPU drives at most %d in a process: use more "
                "threads per worker, more ranks, or a StarPU built by tools/build-starpu",
                q->workers, q->max_workers),
        "threads_per_worker");
  return SL_OK;
}

sl_status sl_topology_divide(const sl_topology_request *request, sl_share *share) {
  memset(share, 0, sizeof *share);
  SL_TRY(check(request));
  machine m;
  SL_TRY(survey(request, &m));
  int *start = malloc((size_t)m.ncores * sizeof *start), begin = 0, end = 0;
  sl_status status = SL_OK;
  if (!start) SL_TRY_OUT(sl_no_memory("for sharing out %d cores", m.ncores));
  SL_TRY_OUT(split(&m, request->ranks, request->rank, &begin, &end));
  unit *core = m.core + begin;
  share->node_cores = m.ncores;
  share->cores = end - begin;
  share->oversubscribed = request->ranks > m.ncores;

  /* The cores that the cgroup's quota grants, divided evenly; every rank needs one core. */
  int budget = share->cores;
  if (request->quota > 0 && request->quota < m.ncores) {
    const int paid = more((int)(request->quota + 1e-6), 1);
    const int mine = paid / request->ranks + (request->rank < paid % request->ranks);
    if (mine < 1) share->oversubscribed = 1;
    budget = less(budget, more(mine, 1));
  }

  const int aside = less(request->drivers, request->workers < 0 ? budget : budget - 1), n = share->cores - aside;
  budget -= aside;
  if (request->drivers > 0) {
    share->driver_pu = calloc((size_t)request->drivers, sizeof *share->driver_pu);
    if (!share->driver_pu) SL_TRY_OUT(sl_no_memory("for %d GPU drivers", request->drivers));
    share->ndrivers = request->drivers;
    set_aside(core, share->cores, aside, request->gpu_domain);
    for (int i = 0; i < request->drivers; i++)
      share->driver_pu[i] = pu_of(&m, &core[aside ? n + i % aside : 0], aside ? i / aside : 0);
    if (aside < request->drivers) share->oversubscribed = 1;
  }

  const int max = request->max_workers ? request->max_workers : INT_MAX;
  share->best_threads = automatic_threads(core, n, budget, request->max_workers, start);
  if (request->workers < 0) { /* only GPUs compute */
    share->threads_per_worker = 1;
    share->idle_cores = share->idle_by_workers = n;
    goto out;
  }
  const int k = request->threads_per_worker ? request->threads_per_worker : request->workers ? 1 : share->best_threads;
  const int teams = place_teams(core, n, k, start);
  const int paid_teams = less(teams, budget / k);
  const int wanted = request->workers ? request->workers : less(more(paid_teams, 1), max);
  share->threads_per_worker = k;
  if (wanted > teams || wanted * k > budget) share->oversubscribed = 1;

  share->worker = calloc((size_t)wanted, sizeof *share->worker);
  if (!share->worker) SL_TRY_OUT(sl_no_memory("for %d workers", wanted));
  share->nworkers = wanted;
  for (int i = 0; i < wanted; i++) SL_TRY_OUT(make_place(&m, core, n, k, start, teams, i, &share->worker[i]));

  const int driven = teams ? less(wanted, teams) * k : less(n, k);
  share->idle_cores = n - driven;
  if (request->workers && wanted < paid_teams) share->idle_by_workers = (paid_teams - wanted) * k;
  if (!request->workers && wanted < paid_teams) share->idle_by_limit = (paid_teams - wanted) * k;
  if (wanted < teams && paid_teams < teams) share->idle_by_quota = (teams - more(paid_teams, wanted)) * k;
  share->idle_by_shape = share->idle_cores - share->idle_by_workers - share->idle_by_limit - share->idle_by_quota;
out:
  free(start);
  forget(&m);
  if (status != SL_OK) sl_share_free(share);
  return status;
}

void sl_share_free(sl_share *share) {
  for (int i = 0; share->worker && i < share->nworkers; i++) {
    free(share->worker[i].pu);
    free(share->worker[i].core);
    free(share->worker[i].domain);
  }
  free(share->worker);
  free(share->driver_pu);
  memset(share, 0, sizeof *share);
}

/* A text buffer that cuts off what does not fit. */
typedef struct text {
  char *at;
  size_t left;
} text;

static void say(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(text *t, const char *format, ...) {
  if (t->left == 0) return;
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(t->at, t->left, format, args);
  va_end(args);
  const size_t used = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
  t->at += used;
  t->left -= used;
}

/* "0-3,8" from 0 1 2 3 8, in the order given. */
static void say_numbers(text *t, const unsigned *number, int n) {
  for (int i = 0; i < n;) {
    int j = i;
    while (j + 1 < n && number[j + 1] == number[j] + 1) j++;
    say(t, j > i ? "%s%u-%u" : "%s%u", i ? "," : "", number[i], number[j]);
    i = j + 1;
  }
}

char *sl_place_text(const sl_place *place, int worker, char *buffer, size_t n) {
  text t = {buffer, n};
  if (n) buffer[0] = 0;
  say(&t, place->threads > 1 ? "worker %d: cores " : "worker %d: core ", worker);
  say_numbers(&t, place->core, place->threads);
  say(&t, " (NUMA ");
  say_numbers(&t, place->domain, place->domains);
  if (memcmp(place->pu, place->core, (size_t)place->threads * sizeof *place->pu) != 0) {
    say(&t, place->threads > 1 ? "; PUs " : "; PU ");
    say_numbers(&t, place->pu, place->threads);
  }
  say(&t, ")");
  return buffer;
}

void sl_share_print(const sl_share *share, FILE *file) {
  char line[4096];
  for (int i = 0; i < share->nworkers; i++)
    fprintf(file, "%s\n", sl_place_text(&share->worker[i], i, line, sizeof line));
  for (int i = 0; i < share->ndrivers; i++) fprintf(file, "GPU driver %d: PU %u\n", i, share->driver_pu[i]);
}

char *sl_share_warning(const sl_share *share, char *buffer, size_t n) {
  text t = {buffer, n};
  if (n) buffer[0] = 0;
  const char *gap = "";
  if (share->idle_by_limit > 0) {
    const int driven = more(share->cores - share->idle_cores, 1);
    say(&t, "%s%d of %d cores are idle because the installed StarPU drives at most %d CPU workers in a process: use ",
        gap, share->idle_by_limit, share->cores, share->nworkers);
    if (share->best_threads > share->threads_per_worker) say(&t, "%d threads per worker, ", share->best_threads);
    say(&t, "%d times as many ranks, or a StarPU built by tools/build-starpu.", (share->cores + driven - 1) / driven);
    gap = " ";
  }
  if (share->idle_by_shape > 0) {
    say(&t,
        "%s%d of %d cores are idle because teams of %d do not divide the NUMA domains evenly: use another number "
        "of threads per worker.",
        gap, share->idle_by_shape, share->cores, share->threads_per_worker);
    gap = " ";
  }
  if (share->idle_by_quota > 0) {
    say(&t, "%s%d of %d cores are idle because the cgroup grants less CPU time.", gap, share->idle_by_quota,
        share->cores);
    gap = " ";
  }
  if (share->oversubscribed)
    say(&t,
        "%sThreads share cores: %d workers of %d threads each, but %d cores for this rank and %d for all ranks of this "
        "node; fewer workers or threads run faster.",
        gap, share->nworkers, share->threads_per_worker, share->cores, share->node_cores);
  return buffer;
}

sl_status sl_topology_group(const hwloc_const_cpuset_t *set, int ranks, int rank, int *group_ranks, int *group_rank) {
  *group_ranks = *group_rank = 0;
  for (int r = 0; r < ranks; r++)
    if (hwloc_bitmap_isequal(set[r], set[rank])) {
      *group_rank += r < rank;
      ++*group_ranks;
    } else if (hwloc_bitmap_intersects(set[r], set[rank])) {
      char *mine = NULL, *other = NULL;
      hwloc_bitmap_list_asprintf(&mine, set[rank]);
      hwloc_bitmap_list_asprintf(&other, set[r]);
      const sl_status status = sl_fail(
          SL_ETOPOLOGY,
          "ranks of this node were bound to PUs that overlap in part (rank %d: %s; rank %d: %s): have the launcher "
          "bind all alike, each to its own, or not at all",
          rank, mine ? mine : "?", r, other ? other : "?");
      free(mine);
      free(other);
      return status;
    }
  return SL_OK;
}

/* ---- cgroup quota ---- */

/* The first line of root + path; 0 when there is none. */
static int read_line(const char *root, const char *path, char *line, int n) {
  char whole[PATH_MAX];
  if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return 0;
  FILE *file = fopen(whole, "r");
  if (!file) return 0;
  const int got = fgets(line, n, file) != NULL;
  fclose(file);
  return got;
}

static double lesser_quota(double a, double b) { return a > 0 && (b <= 0 || a < b) ? a : b; }

/* The fewest cores that the controller mounted at `mount` grants to the group or to a group above it; 0: no limit. */
static double quota_upward(const char *root, const char *mount, const char *group, int version) {
  char at[PATH_MAX], path[PATH_MAX + 64], line[128];
  double quota = 0;
  if (strlen(group) >= sizeof at) return 0;
  strcpy(at, group);
  for (;;) {
    double runtime = 0, period = 0;
    size_t n = strlen(at);
    while (n && at[n - 1] == '/') at[--n] = 0;
    if (version == 2) {
      snprintf(path, sizeof path, "%s%s/cpu.max", mount, at);
      if (read_line(root, path, line, sizeof line) && sscanf(line, "%lf %lf", &runtime, &period) != 2) runtime = 0;
    } else {
      snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", mount, at);
      if (read_line(root, path, line, sizeof line)) runtime = atof(line);
      snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mount, at);
      if (read_line(root, path, line, sizeof line)) period = atof(line);
    }
    if (runtime > 0 && period > 0) quota = lesser_quota(runtime / period, quota);
    char *slash = strrchr(at, '/');
    if (!slash) return quota;
    *slash = 0;
  }
}

/* Whether `name` is among the comma-separated controllers. */
static int has_controller(const char *controllers, size_t n, const char *name) {
  for (const char *at = controllers; at < controllers + n;) {
    const char *comma = memchr(at, ',', n - (size_t)(at - controllers));
    const size_t length = comma ? (size_t)(comma - at) : n - (size_t)(at - controllers);
    if (length == strlen(name) && memcmp(at, name, length) == 0) return 1;
    at += length + 1;
  }
  return 0;
}

double sl_cgroup_cpu_quota(const char *root) {
  static const char *const v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
  static const char *const v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
  char path[PATH_MAX], *line = NULL;
  size_t room = 0;
  double quota = 0;
  if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return 0;
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  while (getline(&line, &room, file) > 0) { /* hierarchy:controllers:group */
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    const size_t length = (size_t)(group - controllers - 1);
    if (length == 0)
      for (int i = 0; i < 2; i++) quota = lesser_quota(quota_upward(root, v2[i], group + 1, 2), quota);
    else if (has_controller(controllers + 1, length, "cpu"))
      for (int i = 0; i < 2; i++) quota = lesser_quota(quota_upward(root, v1[i], group + 1, 1), quota);
  }
  free(line);
  fclose(file);
  return quota;
}
