# Of a timeline of several ranks (starling trace --format csv), what part of the exchange that the backward pass could hide was hidden. Of each
# rank and step: gradients are exchanged for X seconds; from the start of the first exchange the backward pass goes on for B seconds, so that
# min(X, B) can be hidden; workers without work for want of an exchange, for I seconds each on average, show what was not.
$2 == "exchange" && $9 == "\"backward\"" {
  key = $1 " " $5
  exchanged[key] += $18 - $17
  if (!(key in first) || $17 < first[key]) first[key] = $17
}
$2 == "task" {
  key = $1 " " $5
  if ($9 == "\"backward\"" && $18 > last[key]) last[key] = $18
  if (!(($1, $4) in seen)) { seen[$1, $4] = 1; workers[$1]++ }
}
$2 == "idle" && $3 == "exchange" { waited[$1 " " $5] += $18 - $17 }
END {
  for (key in exchanged) {
    split(key, part, " ")
    most = last[key] - first[key]
    if (most < 0) most = 0
    if (exchanged[key] < most) most = exchanged[key]
    was = exchanged[key] - waited[key] / workers[part[1]]
    can += most
    hidden += was < 0 ? 0 : was > most ? most : was
  }
  printf "%.3f\n", (can > 0 ? hidden / can : 1)
}
