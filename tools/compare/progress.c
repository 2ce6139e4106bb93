/* starling compare: the progress meter, and the expected end. */
#include "runtime/base/time.h"
#include "tools/compare/parts.h"

double sl__compare_elapsed(const sl__comparison *c) { return 1e-9 * (double)(sl_now() - c->began); }

void sl__compare_expect_end(sl__comparison *c) {
  c->expected =
      sl__compare_elapsed(c) + (c->planned * c->n - c->measured) * c->process_s + (SL__ALONE - c->alones) * c->alone_s;
}

void sl__compare_tick(sl__comparison *c) {
  sl__meter_show(&c->meter, sl__compare_elapsed(c), c->expected, "%s", c->doing);
}
