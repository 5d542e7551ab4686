/* The benchmarks of `kvrail bench`; each returns the exit status. */
#ifndef KVR_TOOLS_BENCH_H
#define KVR_TOOLS_BENCH_H

int bench_plan_main(int argc, char **argv);
int bench_beside_main(int argc, char **argv);
int bench_calibrate_main(int argc, char **argv);
int bench_connector_main(int argc, char **argv);
int bench_gpu_main(int argc, char **argv);
int bench_ingest_main(int argc, char **argv);
int bench_ping_main(int argc, char **argv);
int bench_post_main(int argc, char **argv);
int bench_push_main(int argc, char **argv);
int bench_query_main(int argc, char **argv);

#endif
