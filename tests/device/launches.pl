# Turns what is not C++ in preprocessed CUDA C++ into calls of include/cuda_runtime.h, without moving a line:
#   KERNEL<<<CONFIGURATION>>>(ARGUMENTS)   a launch; the arguments reach the kernel as a copy
#   extern __shared__ T NAME[];            the block's dynamic shared memory
#   __shared__ T NAME[N]...;  or  T NAME;  a piece of shared memory for this place
use strict;
use warnings;
undef $/;
$_ = <STDIN>;
my $angle; $angle = qr/<(?:[^<>;{}()]|(??{$angle}))*>/;
my $round; $round = qr/\((?:[^()]|(??{$round}))*\)/;
s/\bextern\s+__shared__\s+([\w:]+)\s+(\w+)\s*\[\s*\]\s*;/$1 *$2 = ($1 *)emulated_shared(nullptr, 0);/g;
s/\b__shared__\s+([\w:]+(?:\s*$angle)?)\s+(\w+)((?:\s*\[[^\]]*\])*)\s*;/static const char $2_site = 0; $1 (&$2)$3 = *($1 (*)$3)emulated_shared(&$2_site, sizeof($1$3));/g;
s{\b(\w+\s*(?:$angle)?)\s*<<\s*<((?:$round|[^(){};])*?)>>\s*>\s*\((\s*\))?}{
  my ($kernel, $configuration, $none) = ($1, $2, $3);
  (my $name = $kernel) =~ s/\s+//g;
  "emulated_kernel(\"$name\")($configuration)([=](auto... emulated_a) { $kernel(emulated_a...); }" . (defined $none ? ")" : ", ");
}ge;
print;
