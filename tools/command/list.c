/* The subcommands of starling, in the order in which help lists them: their arguments, and what help and manual say. */
#include <stddef.h>

#include "tools/command/command.h"
#include "tools/commands/commands.h"

static const sl__command train = {
    .name = "train",
    .bit = SL__TRAIN,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__train,
    .summary = "Train a network on labelled images, or on text",
    .description =
        "Trains MODEL and keeps the model with the best validation (images: highest accuracy; tokens: least loss). The "
        "run directory gets the configuration (config.yaml), machine and versions (environment.json), everything that "
        "decides the bits (plan.json), metrics (metrics.jsonl), the best model (model.safetensors) and the newest "
        "checkpoints. At the end train scores the best model on the test data. SIGINT, SIGTERM and SIGUSR1 end a run "
        "after the current step and a checkpoint. Before the first step train predicts the time of a step, by the "
        "times that "
        "calibrate and the speeds that bench or info have measured on this machine. heartbeat.json in the run "
        "directory says each second what the run "
        "does, and at the end its exit code. With --ranks or --hosts train starts mpiexec itself, and with --restarts "
        "it starts a job that lost a rank again, from the last checkpoint."};
static const sl__command eval = {
    .name = "eval",
    .bit = SL__EVAL,
    .arguments = "RUN|FILE ",
    .least = 1,
    .most = 1,
    .run = sl__eval,
    .summary = "Score a trained model on a split of its data set",
    .description =
        "Scores a run's best model, or a model file, on the test, validation or training part of its data. Prints "
        "loss, top-1 and top-5 accuracy, and for language models perplexity."};
static const sl__command predict = {
    .name = "predict",
    .bit = SL__PREDICT,
    .arguments = "RUN|FILE IMAGE... ",
    .least = 2,
    .most = -1,
    .run = sl__predict,
    .summary = "Classify images with a trained model",
    .description =
        "Prints class and probability of each image. An IMAGE is an image file (a JPEG, say) of the model's size, or "
        "of any size with --resize (grey and colour are converted), or an IDX file, gzip or plain; of an IDX file all "
        "images are classified."};
static const sl__command generate = {
    .name = "generate",
    .bit = SL__GENERATE,
    .arguments = "RUN|FILE ",
    .least = 1,
    .most = 1,
    .run = sl__generate,
    .summary = "Generate text with a trained language model",
    .description =
        "Prints the prompt and continues it token by token; the same seed gives the same text. When the text is longer "
        "than the model\\(aqs window, the model no longer sees its beginning. Without a tokenizer, prompt and text are "
        "token ids."};
static const sl__command bench = {
    .name = "bench",
    .bit = SL__BENCH,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__bench,
    .summary = "Measure the speed of training steps",
    .description =
        "Prints the median time of a step after warm-up, samples/s, GFLOP/s by the operations\\(aq costs, per cent of "
        "the sgemm peak (all worker threads multiply matrices, before and after the steps), memory bandwidth (a triad "
        "on all of them), the step\\(aqs time as predicted by these speeds and the times of calibrate, and the shares "
        "of worker time in kernels and in idle time by cause "
        "(docs/reference/timeline.md)."};
static const sl__command calibrate = {
    .name = "calibrate",
    .bit = SL__CALIBRATE,
    .arguments = "MODEL ",
    .least = 0,
    .most = 1,
    .run = sl__calibrate,
    .summary = "Fill StarPU's performance models for a model's tasks",
    .description =
        "Runs training steps of MODEL on all CPU workers and GPUs until each kind of task (operation and size) has "
        "enough samples. "
        "Rejects first calls and outliers, prints samples, medians and spread, and stores the samples in StarPU's "
        "performance models, which dm* and heft policies use, under the machine\\(aqs name (--performance-models). The "
        "options "
        "decide the sizes of the tasks: give those of the later train, bench or compare. Ends with exit code 3 if "
        "samples are lacking after --most-steps. With --network and without MODEL it measures the network between "
        "the ranks of a job instead."};
static const sl__command compare = {
    .name = "compare",
    .bit = SL__COMPARE,
    .also = SL__BENCH,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__compare,
    .summary = "Compare scheduling policies on a model's training steps",
    .description =
        "Measures training steps of MODEL under several scheduling policies. Each measurement is a process of its own, "
        "and policies take turns in every repetition. By default compare measures eager, lws, prio, dmda and dmdas "
        "(--policies all: every policy), calibrates StarPU's performance models first if they lack samples, and takes "
        "about three minutes (--minutes). Prints for each policy the time of a step, its ratio to eager's with a 95% "
        "interval, its share of a common lower bound, the slowdown of kernels relative to running alone, and idle time "
        "by cause. Then recommends a policy, and says whether the difference is more than noise. Fails if policies "
        "give different bytes. Ctrl-C or SIGTERM ends the comparison early: it prints the measurements so far, marked "
        "as partial, and ends with exit code 130; a second signal ends it at once. --out writes a page with plots "
        "(compare.html), every repetition (compare.csv) and the figures (compare.json). compare passes all other "
        "options on to bench."};
static const sl__command scale = {
    .name = "scale",
    .bit = SL__SCALE,
    .also = SL__BENCH,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__scale,
    .summary = "Show how a model scales over nodes or ranks",
    .description =
        "With --machine, simulates training steps of MODEL on each number of --nodes (see simulate); with --ranks, "
        "measures them on this machine (see bench). Prints for each number the time of a step, samples/s, speedup, "
        "efficiency, the exchange that no task hides, energy if the machine\\(aqs power is known, and cost if a price "
        "is. Then says where more nodes stop paying, and what the largest loss is. By default the batch is the same on "
        "all numbers; with --weak it grows. --what-if, --slow-node and --jitter print a second table beside the first, "
        "and --lost-node the cost of a lost node. --out writes a page with plots (scale.html), the table (scale.csv) "
        "and the figures (scale.json). All other options go to simulate or bench. docs/how-to/scale.md tells more."};
static const sl__command graph = {.name = "graph",
                                  .bit = SL__GRAPH,
                                  .arguments = "MODEL ",
                                  .least = 1,
                                  .most = 1,
                                  .run = sl__graph,
                                  .summary = "Show the tasks of a training step and the memory they need",
                                  .description =
                                      "Prints the graph of a step, by layer and operation, with shapes, costs, "
                                      "buffers, critical path and predicted peak memory, without running it. With "
                                      "--mesh also the step of all ranks that share samples."};
static const sl__command simulate = {
    .name = "simulate",
    .bit = SL__SIMULATE,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__simulate,
    .summary = "Simulate training steps on a machine that is not here",
    .description =
        "Runs the tasks of training steps of MODEL on a simulated machine (--machine), with StarPU's own schedulers "
        "and SimGrid: no kernel runs, and no data have memory. Times of tasks come from their costs and the "
        "machine\\(aqs "
        "rates, times of copies and exchanges from its links and network. Prints what bench prints of a real machine; "
        "--out writes the timeline for report and trace. A --mesh with pipe or tensor is predicted instead, by one "
        "schedule of all ranks that share samples, with their bubble and the messages that no task hides. The same "
        "options give the same output, byte for byte. docs/how-to/simulate.md tells more."};
static const sl__command plan = {
    .name = "plan",
    .bit = SL__PLAN,
    .arguments = "MODEL ",
    .least = 1,
    .most = 1,
    .run = sl__plan,
    .summary = "Find the plan that trains a model fastest on a machine",
    .description =
        "Searches batch, ranks of a node, workers, shards, leaves, micro-batches, recomputation, ZeRO, row blocks and "
        "meshes for the plan that trains MODEL fastest on --nodes nodes of --machine. An option that is given stays as "
        "it is. "
        "Plans are first predicted, as graph does, and those that exceed the memory are left out; starling-sim, where "
        "it is built, then simulates the best of them under several scheduling policies. Prints the best five with "
        "step, samples/s, share of the bound, peak memory of a node, why each beats the next, and the command that "
        "trains so. A larger batch must give 5% more samples/s for each doubling. With --samples or --tokens it says "
        "how long a training takes, and with --time how many nodes it needs. For a model that does not fit it names "
        "the memory that is short, the amount, and the number of nodes that could hold it, and ends with exit code 1. "
        "The same options give the same output, unless this machine is measured. docs/how-to/plan.md tells more."};
static const sl__command import = {
    .name = "import",
    .bit = SL__IMPORT,
    .arguments = "images DIR ",
    .least = 2,
    .most = 2,
    .run = sl__import,
    .summary = "Make a data set from folders of images",
    .description =
        "Reads image files (JPEG, PNG, ...) from a folder per class in DIR (or in DIR/train, and test images in "
        "DIR/test or DIR/val), brings them to one size, and writes a data set for --data to the folder --out. The "
        "folders\\(aq names are the classes, in the order of their bytes. Without --size and --crop all images must "
        "have one size."};
static const sl__command tokenize = {
    .name = "tokenize",
    .bit = SL__TOKENIZE,
    .arguments = "FILE... ",
    .least = 0,
    .most = -1,
    .run = sl__tokenize,
    .summary = "Make token files from texts, with a given or a new tokenizer",
    .description =
        "Writes the tokens of the FILEs to train.bin in --out, and the tokenizer to tokenizer.json, which Hugging "
        "Face's tokenizers read. With --val-fraction, the last part of the tokens goes to val.bin instead (with "
        "several FILEs, the last whole ones). Between FILEs stands the tokenizer's end token, if it has one. With "
        "--tokenizer=train it first learns a byte-level BPE of --vocabulary tokens from the FILEs. With --decode it "
        "prints the text of a token file instead."};
static const sl__command trace = {
    .name = "trace",
    .bit = SL__TRACE,
    .arguments = "RUN ",
    .least = 1,
    .most = 1,
    .run = sl__trace,
    .summary = "Show where the time of a run's last steps went, or write it for other tools",
    .description =
        "Reads the timelines that the ranks of RUN recorded (a run directory, or the folder of bench --out). Prints "
        "for each rank the time of a step, its lower bound, and the shares of worker time in kernels and in idle time "
        "by cause. With --format and --out it instead writes all tasks, exchanges and idle intervals of all ranks, on "
        "one clock: for ui.perfetto.dev (chrome), ViTE (paje) or a spreadsheet (csv). docs/reference/timeline.md "
        "explains the figures."};
static const sl__command report = {
    .name = "report",
    .bit = SL__REPORT,
    .arguments = "RUN ",
    .least = 1,
    .most = 1,
    .run = sl__report,
    .summary = "Write a run's timeline, figures and curves as one HTML file",
    .description =
        "Writes RUN/report.html, a page for any browser that needs no network: why a step was as slow as it was, the "
        "timeline of all ranks, idle time by cause, bounds, operations, and loss and throughput if RUN has metrics. "
        "RUN is a run directory, or the folder of bench --out. --json prints the page\\(aqs data instead, or writes "
        "them to --out; --svg writes plots as files, for papers. --beside reads a second run of the same tasks, such "
        "as one of simulate --out: it prints how their step times differ, divided by cause, and the page shows both "
        "timelines. docs/reference/timeline.md explains the figures."};
static const sl__command info = {
    .name = "info",
    .bit = SL__INFO,
    .arguments = "",
    .least = 0,
    .most = 0,
    .run = sl__info,
    .summary = "Show the machine as Starling sees it",
    .description =
        "Prints topology and pinning, GPUs, memory, the builds of StarPU, MPI and OpenBLAS, the measured sgemm peak "
        "and memory bandwidth, and warnings about settings that cost speed. Under mpiexec it prints one part for each "
        "rank. With --models it prints the models and their sizes instead, with --machines the machines that come with "
        "Starling, and with --machine the description of this one or another."};
static const sl__command convert = {
    .name = "convert",
    .bit = SL__CONVERT,
    .arguments = "RUN|FILE|DIR ",
    .least = 1,
    .most = 1,
    .run = sl__convert,
    .summary = "Convert a model to or from another library's layout",
    .description =
        "Reads a run's best model, a model file, or published weights of Hugging Face (GPT-2, BERT, ViT, DeiT, ResNet) "
        "or torchvision (ResNet, VisionTransformer): a folder, a safetensors file, or an index of several. Writes them "
        "to --out with the names and layout of the library --to. If tensors are missing, superfluous or of another "
        "shape, it lists them all and writes nothing."};

static const sl__command lesson = {
    .name = "lesson",
    .bit = SL__LESSON,
    .arguments = "LESSON DIR ",
    .least = 2,
    .most = 2,
    .run = sl__hand_out,
    .summary = "Make the folder of a lesson that a student gets",
    .description =
        "Writes a lesson into the new folder DIR: the program, the page as README.md, the skeleton of the files that "
        "students write, and, if the lesson reads images, those of --data. DIR holds no solution. Its Makefile finds "
        "this Starling from any place. LESSON is a name such as 07-own-operation, its number, or a folder."};
static const sl__command grade = {
    .name = "grade",
    .bit = SL__GRADE,
    .arguments = "LESSON DIR ",
    .least = 2,
    .most = 2,
    .run = sl__grade,
    .summary = "Build, run and judge students' submissions",
    .description =
        "DIR has a folder for each submission, or one C file. LESSON is the folder of a lesson with a skeleton, its "
        "name, such as 07-own-operation, or its number. The files of each submission that the skeleton names are put "
        "into a copy of the lesson, which is built and run in a sandbox (bubblewrap) under limits of time and memory. "
        "The lesson\\(aqs judge runs apart from the submission, draws questions at random and compares the answers. "
        "Prints a line for each submission as it ends, and writes a table (CSV): submission, built, passed, points, "
        "of, "
        "exit, seconds, peak_mb, failure. Without a sandbox it refuses to run, unless --unprotected is given. "
        "docs/lessons/README.md tells more."};
const sl__command *const sl__commands[] = {&train,   &eval,     &generate, &predict, &convert, &bench, &calibrate,
                                           &compare, &simulate, &scale,    &plan,    &graph,   &trace, &report,
                                           &import,  &tokenize, &lesson,   &grade,   &info,    NULL};
