/* Pinning on synthetic hwloc topologies, with all ranks of a node divided as on the real machine. For any request,
 * shares do not overlap, cover the allowed cores, and keep teams inside a NUMA domain. */
#include "runtime/processors/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/scratch.h"

/* 2 packages x 4 NUMA domains x 16 cores x 2 hyperthreads, the second ones numbered after all first ones as Linux does.
 */
static const char big[] = "pack:2 numa:4 core:16 pu:2(indexes=2*128:1*2)";
enum { CORES = 128, DOMAINS = 8, DOMAIN_CORES = 16, MAX_PUS = 1024 };

static hwloc_topology_t machine(const char *description) {
  hwloc_topology_t t;
  assert_int_equal(hwloc_topology_init(&t), 0);
  if (hwloc_topology_set_synthetic(t, description) != 0) fail_msg("hwloc does not take '%s'", description);
  assert_int_equal(hwloc_topology_load(t), 0);
  return t;
}

static hwloc_obj_t core_of(hwloc_topology_t t, unsigned pu) {
  hwloc_obj_t object = hwloc_get_pu_obj_by_os_index(t, pu);
  assert_non_null(object);
  hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, object);
  return core ? core : object;
}

/* Divides the machine among all ranks and checks the invariants, which hold unless cores are oversubscribed. use[c]
 * counts the ranks' threads and drivers on core c. The caller owns share[ranks]. */
static void divide_all(sl_topology_request q, sl_share *share, int use[MAX_PUS]) {
  memset(use, 0, MAX_PUS * sizeof *use);
  for (q.rank = 0; q.rank < q.ranks; q.rank++) {
    sl_share *s = &share[q.rank];
    assert_ok(sl_topology_divide(&q, s));
    assert_true(s->nworkers >= 1);
    assert_int_equal(s->idle_cores, s->idle_by_workers + s->idle_by_quota + s->idle_by_limit + s->idle_by_shape);
    if (q.workers) assert_int_equal(s->nworkers, q.workers);
    if (q.max_workers) assert_true(s->nworkers <= q.max_workers);
    assert_int_equal(s->ndrivers, q.drivers);
    for (int w = 0; w < s->nworkers; w++) {
      const sl_place *p = &s->worker[w];
      assert_int_equal(p->threads, s->threads_per_worker);
      if (q.threads_per_worker) assert_int_equal(p->threads, q.threads_per_worker);
      for (int i = 0; i < p->threads; i++) {
        hwloc_obj_t core = core_of(q.topology, p->pu[i]);
        assert_int_equal(core->logical_index, p->core[i]);
        if (q.allowed) assert_true(hwloc_bitmap_isset(q.allowed, p->pu[i]));
        int listed = 0;
        for (int d = 0; d < p->domains; d++)
          listed |=
              hwloc_bitmap_isset(core->nodeset, hwloc_get_numanode_obj_by_os_index(q.topology, p->domain[d])->os_index);
        assert_true(listed);
        use[p->core[i]]++;
      }
    }
    for (int d = 0; d < s->ndrivers; d++) use[core_of(q.topology, s->driver_pu[d])->logical_index]++;
  }
}

static void free_all(sl_share *share, int n) {
  for (int i = 0; i < n; i++) sl_share_free(&share[i]);
}

static int sum(const int *use, int *most) {
  int n = 0;
  *most = 0;
  for (int i = 0; i < MAX_PUS; i++) {
    n += use[i];
    if (use[i] > *most) *most = use[i];
  }
  return n;
}

/* 1, 2, 3, 8, 16 and all cores' worth of ranks, teams of 1 to 16: no overlap, all cores covered where teams divide
 * domains, teams inside domains, ranks in whole ones. */
static void big_machine(void **state) {
  (void)state;
  hwloc_topology_t t = machine(big);
  assert_int_equal(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE), DOMAINS);
  static const int ranks[] = {1, 2, 3, 8, 16, 20, 128}, threads[] = {1, 4, 8, 16};
  sl_share *share = calloc(CORES, sizeof *share);
  int use[MAX_PUS], most;
  for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
    for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
      if (ranks[r] * threads[k] > CORES) continue;
      divide_all((sl_topology_request){.topology = t, .ranks = ranks[r], .threads_per_worker = threads[k]}, share, use);
      const int driven = sum(use, &most);
      assert_int_equal(most, 1);
      int idle = 0, cores = 0;
      for (int i = 0; i < ranks[r]; i++) {
        const sl_share *s = &share[i];
        assert_int_equal(s->oversubscribed, 0);
        assert_int_equal(s->node_cores, CORES);
        idle += s->idle_cores;
        cores += s->cores;
        if (ranks[r] <= DOMAINS) assert_int_equal(s->cores % DOMAIN_CORES, 0);
        for (int w = 0; w < s->nworkers; w++) {
          assert_int_equal(s->worker[w].domains, 1);
          for (int j = 0; j < threads[k]; j++) /* on the core's first hyperthread */
            assert_int_equal(s->worker[w].pu[j], s->worker[w].core[j]);
        }
      }
      assert_int_equal(cores, CORES);
      assert_int_equal(driven + idle, CORES);
      if (ranks[r] <= DOMAINS) assert_int_equal(idle, 0);
      free_all(share, ranks[r]);
    }
  /* 8 ranks: rank r has domain r, 16 workers on cores 16 r ... */
  divide_all((sl_topology_request){.topology = t, .ranks = 8}, share, use);
  for (int r = 0; r < 8; r++) {
    assert_int_equal(share[r].nworkers, 16);
    for (int w = 0; w < 16; w++) {
      assert_int_equal(share[r].worker[w].core[0], 16 * r + w);
      assert_int_equal(share[r].worker[w].domain[0], r);
    }
  }
  free_all(share, 8);
  /* 3 ranks get 3, 2 and 3 whole domains */
  divide_all((sl_topology_request){.topology = t, .ranks = 3}, share, use);
  assert_int_equal(share[0].cores, 48);
  assert_int_equal(share[1].cores, 32);
  assert_int_equal(share[2].cores, 48);
  free_all(share, 3);
  free(share);
  hwloc_topology_destroy(t);
}

/* Debian's StarPU drives 4 workers: the default K is large enough to use all cores; K = 1 leaves cores idle and says
 * so. */
static void few_workers(void **state) {
  (void)state;
  hwloc_topology_t t = machine(big);
  sl_share share[8];
  int use[MAX_PUS], most;
  char text[1024];
  divide_all((sl_topology_request){.topology = t, .ranks = 8, .max_workers = 4}, share, use);
  assert_int_equal(sum(use, &most), CORES);
  assert_int_equal(most, 1);
  for (int r = 0; r < 8; r++) {
    assert_int_equal(share[r].nworkers, 4);
    assert_int_equal(share[r].threads_per_worker, 4);
    assert_string_equal(sl_share_warning(&share[r], text, sizeof text), "");
  }
  free_all(share, 8);

  divide_all((sl_topology_request){.topology = t, .ranks = 1, .max_workers = 4}, share, use);
  assert_int_equal(share[0].threads_per_worker, 32); /* larger than a domain: across two */
  assert_int_equal(share[0].idle_cores, 0);
  assert_int_equal(share[0].worker[1].domains, 2);
  free_all(share, 1);

  divide_all((sl_topology_request){.topology = t, .ranks = 2, .max_workers = 4, .threads_per_worker = 1}, share, use);
  assert_int_equal(share[1].nworkers, 4);
  assert_int_equal(share[1].idle_by_limit, 60);
  sl_share_warning(&share[1], text, sizeof text);
  assert_non_null(strstr(text, "60 of 64 cores are idle"));
  assert_non_null(strstr(text, "16 threads per worker"));
  assert_non_null(strstr(text, "16 times as many ranks"));
  free_all(share, 2);

  divide_all((sl_topology_request){.topology = t, .ranks = 1, .workers = 3, .max_workers = 64}, share, use);
  assert_int_equal(share[0].threads_per_worker, 1);
  assert_int_equal(share[0].idle_by_workers, 125);
  assert_string_equal(sl_share_warning(&share[0], text, sizeof text), "");
  free_all(share, 1);
  hwloc_topology_destroy(t);
}

/* Cpusets: a rectangle, one hyperthread of each core, crumbs of a domain, a single PU. */
static void restricted(void **state) {
  (void)state;
  hwloc_topology_t t = machine(big);
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  sl_share share[16];
  int use[MAX_PUS], most;

  hwloc_bitmap_set_range(allowed, 8, 39); /* half of domain 0, domain 1, half of domain 2 */
  divide_all((sl_topology_request){.topology = t, .allowed = allowed, .ranks = 3, .threads_per_worker = 8}, share, use);
  assert_int_equal(sum(use, &most), 32);
  assert_int_equal(share[0].nworkers, 1);
  assert_int_equal(share[1].nworkers, 2);
  assert_int_equal(share[1].worker[0].domain[0], 1);
  assert_int_equal(share[2].worker[0].core[0], 32);
  free_all(share, 3);
  for (int ranks = 1; ranks <= 16; ranks++) {
    divide_all((sl_topology_request){.topology = t, .allowed = allowed, .ranks = ranks}, share, use);
    assert_int_equal(sum(use, &most), 32);
    assert_int_equal(most, 1);
    for (int r = 0; r < ranks; r++) assert_true(share[r].cores * ranks * 2 >= 32); /* no rank gets far too few */
    free_all(share, ranks);
  }

  hwloc_bitmap_zero(allowed); /* only second hyperthreads, of cores 0 to 3 */
  hwloc_bitmap_set_range(allowed, 128, 131);
  divide_all((sl_topology_request){.topology = t, .allowed = allowed, .ranks = 2}, share, use);
  assert_int_equal(sum(use, &most), 4);
  assert_int_equal(share[1].worker[0].pu[0], 130);
  assert_int_equal(share[1].worker[0].core[0], 2);
  free_all(share, 2);

  hwloc_bitmap_zero(allowed); /* 15 cores of domain 0 and one of domain 1: even parts count for more than the border */
  hwloc_bitmap_set_range(allowed, 0, 14);
  hwloc_bitmap_set(allowed, 16);
  divide_all((sl_topology_request){.topology = t, .allowed = allowed, .ranks = 2}, share, use);
  assert_int_equal(sum(use, &most), 16);
  assert_int_equal(share[0].cores, 8);
  free_all(share, 2);

  hwloc_bitmap_only(allowed, 77);
  divide_all((sl_topology_request){.topology = t, .allowed = allowed, .ranks = 1}, share, use);
  assert_int_equal(share[0].worker[0].pu[0], 77);
  free_all(share, 1);

  hwloc_bitmap_only(allowed, 999);
  assert_fails(SL_ETOPOLOGY, "may use none of the machine's 128 cores",
               sl_topology_divide(&(sl_topology_request){.topology = t, .allowed = allowed, .ranks = 1}, &share[0]));
  hwloc_bitmap_free(allowed);
  hwloc_topology_destroy(t);
}

/* Domains of unequal size, teams that do not divide them, machines without cores or with one domain. */
static void uneven(void **state) {
  (void)state;
  hwloc_topology_t t = machine("pack:2 numa:1 core:6 pu:1");
  sl_share share[16];
  int use[MAX_PUS], most;
  char text[1024];
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .threads_per_worker = 4}, share, use);
  assert_int_equal(share[0].nworkers, 2); /* one for each domain, none across domains */
  assert_int_equal(share[0].worker[1].core[0], 6);
  assert_int_equal(share[0].idle_by_shape, 4);
  assert_non_null(strstr(sl_share_warning(&share[0], text, sizeof text), "4 of 12 cores are idle because teams of 4"));
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 5}, share, use); /* 3 ranks in one domain, 2 in the other */
  assert_int_equal(sum(use, &most), 12);
  assert_int_equal(most, 1);
  for (int r = 0; r < 5; r++)
    for (int w = 0; w < share[r].nworkers; w++)
      assert_int_equal(share[r].worker[w].domain[0], share[r].worker[0].domain[0]);
  free_all(share, 5);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .threads_per_worker = 12}, share, use);
  assert_int_equal(share[0].nworkers, 1); /* fits in no domain */
  assert_int_equal(share[0].worker[0].domains, 2);
  assert_string_equal(sl_place_text(&share[0].worker[0], 0, text, sizeof text), "worker 0: cores 0-11 (NUMA 0-1)");
  free_all(share, 1);
  hwloc_topology_destroy(t);

  t = machine("numa:1 core:7 pu:1");
  divide_all((sl_topology_request){.topology = t, .ranks = 3}, share, use);
  assert_int_equal(sum(use, &most), 7);
  assert_int_equal(most, 1);
  free_all(share, 3);
  hwloc_topology_destroy(t);

  t = machine("numa:2 pu:3"); /* no core level */
  divide_all((sl_topology_request){.topology = t, .ranks = 2}, share, use);
  assert_int_equal(share[1].nworkers, 3);
  assert_int_equal(share[1].worker[0].pu[0], 3);
  free_all(share, 2);
  hwloc_topology_destroy(t);
}

static void quota(void **state) {
  (void)state;
  hwloc_topology_t t = machine(big);
  sl_share share[16];
  int use[MAX_PUS], most;
  char text[1024];
  divide_all((sl_topology_request){.topology = t, .ranks = 2, .quota = 9.9}, share, use);
  assert_int_equal(share[0].nworkers, 5);
  assert_int_equal(share[1].nworkers, 4);
  assert_int_equal(share[1].worker[0].core[0], 64); /* still each rank on its own domains */
  assert_int_equal(share[0].idle_by_quota, 59);
  assert_int_equal(sum(use, &most), 9);
  assert_non_null(strstr(sl_share_warning(&share[0], text, sizeof text), "cgroup grants less"));
  free_all(share, 2);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .quota = 0.5}, share, use);
  assert_int_equal(share[0].nworkers, 1);
  assert_int_equal(share[0].oversubscribed, 0);
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 4, .quota = 2}, share, use);
  for (int r = 0; r < 4; r++) assert_int_equal(share[r].nworkers, 1);
  assert_int_equal(share[3].oversubscribed, 1);
  free_all(share, 4);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .quota = 8, .max_workers = 4}, share, use);
  assert_int_equal(share[0].threads_per_worker, 2);
  assert_int_equal(share[0].nworkers, 4);
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .quota = 500}, share, use);
  assert_int_equal(share[0].nworkers, CORES);
  free_all(share, 1);
  hwloc_topology_destroy(t);
}

/* More workers, threads or ranks than cores: allowed and flagged; hyperthreads are used before any PU is used twice. */
static void oversubscribed(void **state) {
  (void)state;
  hwloc_topology_t t = machine("numa:1 core:1 pu:1");
  sl_share share[8];
  int use[MAX_PUS];
  char text[1024];
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .workers = 2}, share, use);
  assert_int_equal(share[0].oversubscribed, 1);
  assert_int_equal(share[0].worker[1].pu[0], 0);
  assert_non_null(strstr(sl_share_warning(&share[0], text, sizeof text), "share cores"));
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .threads_per_worker = 2}, share, use);
  assert_int_equal(share[0].oversubscribed, 1);
  assert_int_equal(share[0].idle_cores, 0);
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 3}, share, use);
  assert_int_equal(share[2].oversubscribed, 1);
  free_all(share, 3);
  hwloc_topology_destroy(t);

  t = machine("numa:1 core:2 pu:2");
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .workers = 4}, share, use);
  assert_int_equal(share[0].oversubscribed, 1);
  for (int w = 0; w < 4; w++)
    for (int v = 0; v < w; v++) assert_int_not_equal(share[0].worker[w].pu[0], share[0].worker[v].pu[0]);
  free_all(share, 1);
  hwloc_topology_destroy(t);
}

/* A core is set aside for each GPU driver while there are enough. */
static void drivers(void **state) {
  (void)state;
  hwloc_topology_t t = machine("numa:2 core:4 pu:1");
  sl_share share[8];
  int use[MAX_PUS], most;
  divide_all((sl_topology_request){.topology = t, .ranks = 2, .drivers = 2}, share, use);
  assert_int_equal(share[1].nworkers, 2);
  assert_int_equal(share[1].driver_pu[0], 6);
  assert_int_equal(share[1].driver_pu[1], 7);
  assert_int_equal(sum(use, &most), 8);
  assert_int_equal(most, 1);
  free_all(share, 2);
  divide_all((sl_topology_request){.topology = t, .ranks = 8, .drivers = 1}, share, use);
  assert_int_equal(share[7].nworkers, 1);
  assert_int_equal(share[7].driver_pu[0], 7);
  assert_int_equal(share[7].oversubscribed, 1);
  free_all(share, 8);
  hwloc_topology_destroy(t);
}

/* A GPU's driver gets a core on the GPU's NUMA node if its rank has one; teams do not lose their domains by it. */
static void drivers_near_their_gpus(void **state) {
  (void)state;
  hwloc_topology_t t = machine("numa:2 core:4 pu:1");
  sl_share share[2];
  int use[MAX_PUS], most;
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .drivers = 2, .gpu_domain = (int[]){0, 1}}, share, use);
  assert_int_equal(share[0].driver_pu[0], 3);
  assert_int_equal(share[0].driver_pu[1], 7);
  assert_int_equal(share[0].nworkers, 6);
  assert_int_equal(sum(use, &most), 8);
  assert_int_equal(most, 1);
  free_all(share, 1);
  /* Two GPUs on one node, the first; one whose node is not known; teams of three fill what is left of each node. */
  divide_all(
      (sl_topology_request){
          .topology = t, .ranks = 1, .drivers = 2, .threads_per_worker = 3, .gpu_domain = (int[]){-1, 0}},
      share, use);
  assert_int_equal(share[0].driver_pu[0], 7);
  assert_int_equal(share[0].driver_pu[1], 3);
  assert_int_equal(share[0].nworkers, 2);
  assert_int_equal(share[0].worker[0].domains, 1);
  assert_int_equal(share[0].worker[1].domains, 1);
  assert_int_equal(share[0].idle_cores, 0);
  free_all(share, 1);
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .drivers = 2, .gpu_domain = (int[]){0, 0}}, share, use);
  assert_int_equal(share[0].driver_pu[0], 2);
  assert_int_equal(share[0].driver_pu[1], 3);
  free_all(share, 1);
  /* A rank without a core there. */
  divide_all((sl_topology_request){.topology = t, .ranks = 2, .drivers = 1, .gpu_domain = (int[]){0}}, share, use);
  assert_int_equal(share[0].driver_pu[0], 3);
  assert_int_equal(share[1].driver_pu[0], 7);
  free_all(share, 2);
  hwloc_topology_destroy(t);
}

static void senseless(void **state) {
  (void)state;
  hwloc_topology_t t = machine("numa:1 core:2 pu:1");
  sl_share share;
  assert_fails(SL_EINVAL, "rank 2 of 2",
               sl_topology_divide(&(sl_topology_request){.topology = t, .ranks = 2, .rank = 2}, &share));
  assert_fails(SL_EINVAL, "threads per worker: give 0 (automatic) or more",
               sl_topology_divide(&(sl_topology_request){.topology = t, .ranks = 1, .threads_per_worker = -1}, &share));
  assert_fails(SL_EINVAL, "negative",
               sl_topology_divide(&(sl_topology_request){.topology = t, .ranks = 1, .workers = -2}, &share));
  assert_fails(
      SL_ETOPOLOGY, "drives at most 4",
      sl_topology_divide(&(sl_topology_request){.topology = t, .ranks = 1, .workers = 5, .max_workers = 4}, &share));
  hwloc_topology_destroy(t);
}

static void text(void **state) {
  (void)state;
  hwloc_topology_t t = machine(big);
  sl_share share[2];
  int use[MAX_PUS];
  char line[256], *printed = NULL;
  size_t n = 0;
  divide_all((sl_topology_request){.topology = t, .ranks = 2, .threads_per_worker = 8, .drivers = 1}, share, use);
  assert_string_equal(sl_place_text(&share[0].worker[0], 0, line, sizeof line), "worker 0: cores 0-7 (NUMA 0)");
  assert_string_equal(sl_place_text(&share[1].worker[3], 3, line, sizeof line), "worker 3: cores 88-95 (NUMA 5)");
  assert_string_equal(sl_place_text(&share[0].worker[0], 0, line, 12), "worker 0: c");
  FILE *file = open_memstream(&printed, &n);
  sl_share_print(&share[1], file);
  fclose(file);
  assert_non_null(strstr(printed, "worker 0: cores 64-71 (NUMA 4)\nworker 1: cores 72-79 (NUMA 4)\n"));
  assert_non_null(strstr(printed, "GPU driver 0: PU 127\n"));
  free(printed);
  free_all(share, 2);
  hwloc_topology_destroy(t);

  t = machine("numa:1 core:2 pu:2"); /* PUs 0 and 1 are of core 0 */
  divide_all((sl_topology_request){.topology = t, .ranks = 1, .threads_per_worker = 2}, share, use);
  assert_string_equal(sl_place_text(&share[0].worker[0], 0, line, sizeof line),
                      "worker 0: cores 0-1 (NUMA 0; PUs 0,2)");
  free_all(share, 1);
  hwloc_topology_destroy(t);
}

static void groups(void **state) {
  (void)state;
  static const char *const lists[] = {"0-3", "4-7", "0-3", "4-7", "0-3"};
  hwloc_bitmap_t set[5];
  for (int i = 0; i < 5; i++) {
    set[i] = hwloc_bitmap_alloc();
    hwloc_bitmap_list_sscanf(set[i], lists[i]);
  }
  int ranks, rank;
  assert_ok(sl_topology_group((const hwloc_const_cpuset_t *)set, 5, 4, &ranks, &rank));
  assert_int_equal(ranks, 3);
  assert_int_equal(rank, 2);
  assert_ok(sl_topology_group((const hwloc_const_cpuset_t *)set, 5, 1, &ranks, &rank));
  assert_int_equal(ranks, 2);
  assert_int_equal(rank, 0);
  hwloc_bitmap_set(set[1], 3);
  assert_fails(SL_ETOPOLOGY, "overlap in part",
               sl_topology_group((const hwloc_const_cpuset_t *)set, 5, 4, &ranks, &rank));
  for (int i = 0; i < 5; i++) hwloc_bitmap_free(set[i]);
}

/* ---- cgroup files, made up below a folder ---- */

static void put(const char *root, const char *path, const char *content) {
  char whole[8192];
  snprintf(whole, sizeof whole, "%.4000s%.4000s", root, path);
  for (char *c = whole + strlen(root) + 1; *c; c++)
    if (*c == '/') {
      *c = 0;
      mkdir(whole, 0777);
      *c = '/';
    }
  scratch_write(whole, content, strlen(content));
}

static void check_quota(const char *root, double expected) {
  const double found = sl_cgroup_cpu_quota(root);
  if (!(found >= expected - 1e-9 && found <= expected + 1e-9)) fail_msg("%s: %g cores, not %g", root, found, expected);
}

static void cgroup(void **state) {
  const char *folder = *state;
  char root[4096];
  snprintf(root, sizeof root, "%s/none", folder);
  check_quota(root, 0);

  snprintf(root, sizeof root, "%s/v2", folder);
  put(folder, "/v2/proc/self/cgroup", "0::/user.slice/job 7\n");
  check_quota(root, 0);
  put(root, "/sys/fs/cgroup/user.slice/job 7/cpu.max", "max 100000\n");
  check_quota(root, 0);
  put(root, "/sys/fs/cgroup/user.slice/cpu.max", "350000 100000\n");
  check_quota(root, 3.5);
  put(root, "/sys/fs/cgroup/user.slice/job 7/cpu.max", "150000 100000\n"); /* the least on the way up */
  check_quota(root, 1.5);

  snprintf(root, sizeof root, "%s/inside", folder); /* in a container: the group's own folder is the root */
  put(folder, "/inside/proc/self/cgroup", "0::/\n");
  put(root, "/sys/fs/cgroup/cpu.max", "200000 100000\n");
  check_quota(root, 2);

  snprintf(root, sizeof root, "%s/v1", folder);
  put(folder, "/v1/proc/self/cgroup", "11:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n3:cpuset:/docker/a\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  check_quota(root, 0);
  put(root, "/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "250000\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", "50000\n");
  check_quota(root, 5);
}

/* Prints how the big machine is divided, for tests/figures/pinning.sh. */
static int print_big_machine(void) {
  static const int ranks[] = {1, 2, 8};
  sl_share *share = calloc(CORES, sizeof *share);
  int use[MAX_PUS];
  hwloc_topology_t t = machine(big);
  for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
    divide_all((sl_topology_request){.topology = t, .ranks = ranks[r], .max_workers = 4}, share, use);
    for (int i = 0; i < ranks[r]; i++) {
      printf("%d ranks a node, rank %d:\n", ranks[r], i);
      sl_share_print(&share[i], stdout);
    }
    free_all(share, ranks[r]);
  }
  hwloc_topology_destroy(t);
  free(share);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--print") == 0) return print_big_machine();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(big_machine), cmocka_unit_test(few_workers),
      cmocka_unit_test(restricted),  cmocka_unit_test(uneven),
      cmocka_unit_test(quota),       cmocka_unit_test(oversubscribed),
      cmocka_unit_test(drivers),     cmocka_unit_test(drivers_near_their_gpus),
      cmocka_unit_test(senseless),   cmocka_unit_test(text),
      cmocka_unit_test(groups),      cmocka_unit_test_setup_teardown(cgroup, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests_name("runtime/topology", tests, NULL, NULL);
}
