/* The rows of the table of settings: one row for each option of the command. Included where SETTING is defined, for the
 * struct (options.h) and for the table (table.c); a row feeds flags, the keys of a YAML file, --help, the manual page,
 * the configuration that a run leaves behind, and what ranks compare.
 *
 * SETTING(kind, field, "option", commands, use, "ARGUMENT", default, least, most, help...)
 * kind      TEXT, CHOICE, INTEGER, REAL, FLAG (runtime/base/setting.h)
 * commands  that take the option
 * use       RUN: part of a run's configuration, the same on all ranks; LOCAL: likewise, but each rank may have its own;
 *           NONE: neither
 * default   as text; NULL: there is none, or the command finds it
 * least, most  of numbers
 * help      {commands, "text"}...: what only some commands say of it; commands 0: all */
SETTING(TEXT, data, "data", SL__TRAIN | SL__EVAL | MEASURES | SL__GRAPH, LOCAL, "DIR|FILES", NULL, 0, 0,
        {0, "folder of IDX files, gzip or plain (default " SL_DATASET_DEFAULT
            "); for models of tokens a text, token files (.bin), several with commas between, or a folder of them"},
        {SL__EVAL, "by default the run's"}, {SL__BENCH | SL__CALIBRATE | SL__GRAPH, "by default synthetic"})
SETTING(REAL, val_fraction, "val-fraction", SL__TRAIN | SL__TOKENIZE, RUN, "F", "0.1", 0, 0.9,
        {0, "part of the training images, tokens or texts that is set aside for validation"},
        {SL__TOKENIZE, "none unless given"})
SETTING(TEXT, augment, "augment", SL__TRAIN, RUN, "LIST", "none", 0, 0,
        {0,
         "training images at random mirrored (flip), cut out of a border of N black pixels (crop=N), or both "
         "(crop=4,flip)"})
SETTING(TEXT, image, "image", MEASURES | SL__GRAPH, NONE, "HxWxC", NULL, 0, 0,
        {0, "size of synthetic images (default: the model's)"})
SETTING(INTEGER, classes, "classes", MEASURES | SL__GRAPH, NONE, "N", NULL, 1, 1e6,
        {0, "classes of synthetic images (default: the model's)"})
SETTING(INTEGER, length, "length", BUILDS | SL__GENERATE, RUN, "N", NULL, 1, 1e6,
        {0, "tokens of a window of a language model (default: the model's)"},
        {SL__GENERATE, "by default as it was trained"})

SETTING(INTEGER, steps, "steps", SL__TRAIN | SL__BENCH, RUN, "N", NULL, 1, ANY, {SL__TRAIN, "stop after N steps"},
        {SL__BENCH, "measure N steps (default: 5 seconds' worth)"})
SETTING(INTEGER, epochs, "epochs", SL__TRAIN, RUN, "N", NULL, 1, 1e9,
        {0, "stop after N passes over the training images (default: the model's)"})
SETTING(TEXT, until, "until", SL__TRAIN, RUN, "MEASURE=BOUND", NULL, 0, 0,
        {0,
         "stop once validation reaches accuracy=A or loss=L; missing it within the steps or epochs (default: 5 times "
         "the model's) is a failure"})
SETTING(REAL, stall_timeout, "stall-timeout", SL__TRAIN | SL__EVAL | SL__BENCH, NONE, "SECONDS", "60", 0, 1e6,
        {0,
         "on several ranks: end the job, naming the ranks that keep the others waiting, when nothing has moved for so "
         "long (0: never)"})
SETTING(INTEGER, eval_every, "eval-every", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0, "steps between validations (default: an epoch)"})
SETTING(INTEGER, log_every, "log-every", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0, "steps between lines of metrics.jsonl (default: a tenth of an epoch)"})
SETTING(INTEGER, checkpoint_every, "checkpoint-every", SL__TRAIN, RUN, "N", NULL, 0, ANY,
        {0,
         "steps between checkpoints, 0: none for that (default: one at each validation); the last step has one always"})
SETTING(REAL, checkpoint_minutes, "checkpoint-minutes", SL__TRAIN, RUN, "M", "10", 0, 1e9,
        {0, "minutes after which a checkpoint is written anyhow, 0: none for that"})
SETTING(INTEGER, keep, "keep", SL__TRAIN, RUN, "N", "3", 1, 1e6, {0, "checkpoints that are kept, the newest ones"})
SETTING(INTEGER, batch, "batch", (RUNS | SL__CALIBRATE | SL__GRAPH) & ~SL__GENERATE, RUN, "N", NULL, 1, 1e9,
        {0, "images or windows of a step (default: the model's)"})
SETTING(INTEGER, seed, "seed", SL__TRAIN | SL__GENERATE | MEASURES | SL__IMPORT, RUN, "N", "1", 0, ANY,
        {SL__TRAIN | MEASURES, "seed for initial weights, sample order and dropout"},
        {SL__GENERATE, "seed for drawing tokens"}, {SL__IMPORT, "seed for choosing the images that are set aside"})

SETTING(CHOICE, rate_schedule, "rate-schedule", SL__TRAIN, RUN, "constant|step|linear|cosine", NULL, 0, 0,
        {0, "how the learning rate falls (default: the model's)"})
SETTING(INTEGER, warmup, "warmup", SL__TRAIN, RUN, "N", NULL, 0, ANY,
        {0, "steps over which the learning rate rises from 0 first (default: the model's part of all steps)"})
SETTING(INTEGER, rate_step, "rate-step", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0,
         "step: steps behind the warm-up after which the rate falls, again and again (default: a third of all steps)"})
SETTING(REAL, rate_gamma, "rate-gamma", SL__TRAIN, RUN, "G", "0.1", 0, 1, {0, "step: what the rate is multiplied by"})
SETTING(REAL, rate_floor, "rate-floor", SL__TRAIN, RUN, "F", "0", 0, 1,
        {0, "linear, cosine: part of the largest rate that is left at the end"})
#include "codelets/training_rows.def" /* what is trained how: rows of the library */

SETTING(INTEGER, leaves, "leaves", BUILDS, RUN, "N", NULL, 1, 1e6,
        {0, "parts of the batch that the reduction tree sums over (default: the micro-batches)"})
SETTING(INTEGER, micro_batches, "micro-batches", BUILDS, RUN, "M", NULL, 1, 1e6,
        {0, "run the leaves in M groups, one after another, in the memory of one (default 1); M divides the leaves"})
SETTING(INTEGER, shards, "shards", BUILDS, RUN, "N", NULL, 1, 1e6,
        {0, "parts of the batch that are tasks of their own, a multiple of leaves (default: 64 images or more each)"})
SETTING(INTEGER, row_blocks, "row-blocks", BUILDS, RUN, "N", NULL, 1, 1024,
        {0, "blocks of rows that large weights are cut into (default 1)"})
SETTING(TEXT, balance, "balance", SL__TRAIN | SL__BENCH, RUN, "even|auto|N,N,...", "even", 0, 0,
        {0,
         "leaves of each rank: as many on all; by how long a leaf takes on each, measured in the first steps; or so "
         "many (changes no bit)"})

SETTING(CHOICE, allreduce, "allreduce", SL__TRAIN | SL__BENCH, RUN, "tree|mpi", "tree", 0, 0,
        {0,
         "sums over ranks: by a fixed tree, with the same bits on any number of ranks, or by MPI_Iallreduce, without "
         "that promise"})

SETTING(TEXT, compress, "compress", SL__TRAIN | SL__BENCH, RUN, "none|bf16|topk[=F]", "none", 0, 0,
        {0,
         "send gradients between nodes as they are, in half the bytes, or only the largest, a part F of them (default "
         "0.01; more during --warmup); what is left out is sent later. Gives up the same bits on any number of ranks"})
SETTING(INTEGER, zero, "zero", SL__TRAIN | SL__BENCH | SL__GRAPH, RUN, "STAGE", "0", 0, 1,
        {0, "1: each of several ranks keeps and updates its share of the optimizer's state (ZeRO 1); 0: all of it"})

SETTING(TEXT, sched, "sched", RUNS | SL__INFO, LOCAL, "NAME", NULL, 0, 0,
        {0, "scheduling policy (default $STARPU_SCHED, else the first of --sched-lib, else lws)"})
SETTING(TEXT, sched_lib, "sched-lib", RUNS | SL__INFO | SL__COMPARE, LOCAL, "FILE.so", NULL, 0, 0,
        {0, "a shared library with scheduling policies of your own (default $STARPU_SCHED_LIB)"})
SETTING(INTEGER, workers, "workers", MACHINE | SL__IMPORT, LOCAL, "N", NULL, 1, 4096,
        {0, "CPU workers (default: all cores)"})
SETTING(INTEGER, threads_per_worker, "threads-per-worker", MACHINE, LOCAL, "K", NULL, 1, 1024,
        {0, "cores of the team that each worker leads (default: the least that uses all cores)"})
SETTING(INTEGER, gpus, "gpus", RUNS | SL__CALIBRATE | SL__INFO, LOCAL, "N", NULL, 0, 1024, {0, "GPUs (default: all)"})
SETTING(CHOICE, kernels, "kernels", RUNS | SL__CALIBRATE | SL__INFO, RUN, "base|avx2|avx512", NULL, 0, 0,
        {0, "instruction set of the CPU kernels (default: the best that runs)"})
SETTING(FLAG, calibrate, "calibrate", SL__TRAIN | SL__BENCH, RUN, NULL, NULL, 0, 0,
        {SL__TRAIN | SL__BENCH, "let StarPU refine its performance models, which dm* policies need, as it runs"},
        {SL__COMPARE, "run 'starling calibrate' first, even if the models have their samples"})
SETTING(FLAG, uncalibrated, "uncalibrated", SL__COMPARE, NONE, NULL, NULL, 0, 0,
        {0, "do not calibrate: compare although models lack samples, and mark the result"})
SETTING(TEXT, machine, "machine", RUNS | SL__CALIBRATE | SL__INFO, NONE, "NAME", NULL, 0, 0,
        {0, "whose performance models to use (default $STARPU_HOSTNAME, else a name made of what decides times here)"})
SETTING(INTEGER, samples, "samples", SL__CALIBRATE, NONE, "N", NULL, 1, 1e6,
        {0, "accepted samples that each kind of task is to have (default 10, as StarPU wants)"})
SETTING(INTEGER, most_steps, "most-steps", SL__CALIBRATE, NONE, "N", "1000", 1, ANY,
        {0, "give up after N steps, and list what lacks samples"})

SETTING(TEXT, init, "init", SL__TRAIN, LOCAL, "FILE|DIR", NULL, 0, 0,
        {0, "begin with these weights: Starling's, Hugging Face's or torchvision's"})
SETTING(FLAG, new_head, "new-head", SL__TRAIN, RUN, NULL, NULL, 0, 0,
        {0, "with --init: a classifier of fresh weights, for other classes"})
SETTING(CHOICE, to, "to", SL__CONVERT, NONE, "hf|torchvision|starling", NULL, 0, 0,
        {0, "whose names and layout to write"})
SETTING(TEXT, model_name, "model", SL__CONVERT, NONE, "NAME", NULL, 0, 0,
        {0, "the model that the weights are of (default: that whose tensors they are)"})
SETTING(INTEGER, shard_size, "shard-size", SL__CONVERT, NONE, "MB", NULL, 1, 1e9,
        {0, "hf: write files of at most so many megabytes, and an index (default: one file)"})

SETTING(TEXT, out, "out",
        SL__TRAIN | SL__BENCH | SL__COMPARE | SL__TRACE | SL__REPORT | SL__TOKENIZE | SL__CONVERT | SL__IMPORT |
            SL__GRADE,
        NONE, "PATH", NULL, 0, 0, {SL__TRAIN, "run directory (default runs/MODEL-DATE)"},
        {SL__TOKENIZE | SL__IMPORT, "folder for the files"}, {SL__CONVERT, "file to write, or with --to hf folder"},
        {SL__BENCH, "folder for the timeline (default: none is written)"},
        {SL__COMPARE, "folder for the tables (default: none)"}, {SL__TRACE, "file to write"},
        {SL__REPORT, "file to write (default RUN/report.html)"},
        {SL__GRADE, "table to write (default: standard output)"})
SETTING(FLAG, resume, "resume", SL__TRAIN, NONE, NULL, NULL, 0, 0, {0, "go on with the run in --out"})
SETTING(FLAG, force, "force", SL__TRAIN, NONE, NULL, NULL, 0, 0, {0, "replace the run in --out"})
SETTING(TEXT, svg, "svg", SL__REPORT, NONE, "DIR", NULL, 0, 0,
        {0, "also write its plots as SVG files into this folder: timeline, idle, loss, throughput, roofline"})
SETTING(CHOICE, format, "format", SL__TRACE, NONE, "chrome|paje|csv", NULL, 0, 0,
        {0, "write the timeline to --out for ui.perfetto.dev (chrome), ViTE (paje) or a spreadsheet (csv)"})
SETTING(CHOICE, split, "split", SL__EVAL, NONE, "test|validation|train", "test", 0, 0, {0, "images to evaluate on"})
SETTING(TEXT, prompt, "prompt", SL__GENERATE, NONE, "TEXT", NULL, 0, 0, {0, "what the text begins with"})
SETTING(TEXT, prompt_file, "prompt-file", SL__GENERATE, NONE, "FILE", NULL, 0, 0, {0, "file that the text begins with"})
SETTING(INTEGER, tokens, "tokens", SL__GENERATE, NONE, "N", "256", 1, 1e9, {0, "tokens to write"})
SETTING(REAL, temperature, "temperature", SL__GENERATE, NONE, "X", "1", 0, 1e6,
        {0, "what logits are divided by; 0: always the likeliest token"})
SETTING(INTEGER, top_k, "top-k", SL__GENERATE, NONE, "K", NULL, 1, 1e9, {0, "draw from the K likeliest tokens only"})
SETTING(REAL, top_p, "top-p", SL__GENERATE, NONE, "P", "1", 0, 1,
        {0, "draw from the fewest tokens whose probability is P or more"})
SETTING(TEXT, tokenizer, "tokenizer", SL__GENERATE | SL__TOKENIZE, NONE, "PATH", NULL, 0, 0,
        {0,
         "tokenizer of the text: bytes, tokenizer.json, vocab.txt, or a folder with one of them or with vocab.json and "
         "merges.txt"},
        {SL__GENERATE, "by default tokenizer.json beside the model, bytes where the vocabulary is 256"},
        {SL__TOKENIZE, "or train, to learn one"})
SETTING(INTEGER, vocabulary, "vocabulary", SL__TOKENIZE, NONE, "N", NULL, 257, 1e6,
        {0, "tokens of the tokenizer to learn"})
SETTING(CHOICE, bits, "bits", SL__TOKENIZE, NONE, "16|32", NULL, 0, 0,
        {0, "of a token in the files (default: 16 where all ids fit)"})
SETTING(TEXT, decode, "decode", SL__TOKENIZE, NONE, "FILE", NULL, 0, 0, {0, "print the text of a token file"})
SETTING(TEXT, size, "size", SL__IMPORT | BUILDS | SL__CONVERT, RUN, "KEY=VALUE,...|HxW", NULL, 0, 0,
        {BUILDS, "other sizes than the model's, such as layers=6,width=72 ('starling info --models' lists them)"},
        {SL__CONVERT, "sizes that the weights do not show, such as heads=6"},
        {SL__IMPORT, "HxW: resize images to this height and width, whatever their proportions"})
SETTING(INTEGER, resize, "resize", SL__IMPORT | SL__PREDICT, NONE, "N", NULL, 1, 65536,
        {0, "resize images so that the shorter side has N pixels"},
        {SL__PREDICT, "only images of another size than the model takes, whose middle is then cut out"})
SETTING(INTEGER, crop, "crop", SL__IMPORT, NONE, "N", NULL, 1, 65536, {0, "then cut NxN pixels out of the middle"})
SETTING(FLAG, grey, "grey", SL__IMPORT, NONE, NULL, NULL, 0, 0, {0, "make grey images, of one channel"})
SETTING(
    REAL, test_fraction, "test-fraction", SL__IMPORT, NONE, "F", NULL, 0, 0.9,
    {0, "part of each class's images that is set aside for testing, where there is no folder of those (default: none)"})
SETTING(FLAG, skip_bad, "skip-bad", SL__IMPORT, NONE, NULL, NULL, 0, 0,
        {0, "leave images out that cannot be read, and list them at the end"})
SETTING(INTEGER, top, "top", SL__PREDICT, NONE, "N", "1", 1, 1e6, {0, "classes shown for each image"})
SETTING(INTEGER, ranks, "ranks", SL__GRAPH, NONE, "N", "1", 1, 4096,
        {0, "show the step of the first of N ranks, and what moves between them"})
SETTING(FLAG, tasks, "tasks", SL__GRAPH, NONE, NULL, NULL, 0, 0,
        {0, "show every task, not one line per layer and operation"})
SETTING(FLAG, dot, "dot", SL__GRAPH, NONE, NULL, NULL, 0, 0, {0, "print the graph for dot (graphviz)"})
SETTING(FLAG, models, "models", SL__INFO, NONE, NULL, NULL, 0, 0, {0, "list the models and their sizes"})
SETTING(FLAG, no_measure, "no-measure", SL__BENCH | SL__INFO, NONE, NULL, NULL, 0, 0,
        {0, "leave out the measurement of sgemm peak and memory bandwidth"})
SETTING(FLAG, no_priorities, "no-priorities", SL__BENCH, NONE, NULL, NULL, 0, 0,
        {0, "tell StarPU no priorities of tasks (to see what they bring)"})
SETTING(TEXT, policies, "policies", SL__COMPARE, NONE, "LIST", NULL, 0, 0,
        {0,
         "scheduling policies to compare, with commas between, or all that StarPU has; eager is always among them "
         "(default: eager,lws,prio,dmda,dmdas, and heteroprio where there are GPUs)"})
SETTING(CHOICE, priorities, "priorities", SL__COMPARE, NONE, "on|off|both", "on", 0, 0,
        {0, "compare each policy with priorities of tasks, without, or both"})
SETTING(REAL, minutes, "minutes", SL__COMPARE, NONE, "M", NULL, 0, 1e6,
        {0,
         "take about M minutes: measure as many --repetitions, of as many --steps, as fit, where these are not given "
         "(default 3; with --repetitions no limit)"})
SETTING(INTEGER, repetitions, "repetitions", SL__COMPARE, NONE, "N", NULL, 3, 1e6,
        {0, "processes of each policy, which take turns (default: see --minutes)"})
SETTING(REAL, timeout, "timeout", SL__GRADE, NONE, "SECONDS", "60", 0.1, 1e6, {0, "end a submission that takes longer"})
SETTING(INTEGER, memory, "memory", SL__GRADE, NONE, "MB", "2048", 1, 1e9,
        {0, "end a submission whose processes have more in memory"})
SETTING(
    TEXT, bundle, "bundle", SL__COMPARE, NONE, "FILE.tar.gz", NULL, 0, 0,
    {0,
     "pack what another person needs to repeat the comparison: options, machine, every repetition, models, a script"})
SETTING(FLAG, no_record, "no-record", SL__BENCH, NONE, NULL, NULL, 0, 0,
        {0, "record no tasks, to see what recording costs; shares of worker time are not known then"})
SETTING(TEXT, config, "config", SL__ALL, NONE, "FILE", NULL, 0, 0, {0, "YAML file with options as keys; flags win"})
SETTING(FLAG, json, "json", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print JSON"})
SETTING(FLAG, quiet, "quiet", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print results and errors only"})
SETTING(FLAG, help, "help", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print this"})
