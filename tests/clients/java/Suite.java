import static java.time.Duration.ofMillis;
import static java.time.Duration.ofSeconds;

import io.camunda.zeebe.client.ZeebeClient;
import io.camunda.zeebe.client.api.command.ClientStatusException;
import io.camunda.zeebe.client.api.response.ActivatedJob;
import io.camunda.zeebe.client.api.worker.JobWorker;
import io.grpc.Status;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** The Java client over gRPC: its worker by poll and by push. */
public final class Suite {
  interface Case {
    void run() throws Exception;
  }

  static final String ADDRESS = System.getenv("ADDRESS");
  static ZeebeClient zeebe;
  static String order;

  public static void main(String[] arguments) throws Exception {
    order = Files.readString(Path.of(arguments[0]));
    var cases = new LinkedHashMap<String, Case>();
    cases.put("topology_is_read", Suite::topology);
    cases.put("a_polling_worker_does_each_job_once", () -> twenty("v-polls", false));
    cases.put("a_streaming_worker_does_each_job_once_backlog_included", () -> twenty("v-streams", true));
    cases.put("a_pushed_job_comes_at_once", Suite::pushed);
    cases.put("a_back_off_is_kept", Suite::backOff);
    cases.put("an_exception_is_a_failed_job_that_is_tried_again", Suite::exception);
    cases.put("a_business_error_is_caught_by_its_code", Suite::businessError);
    cases.put("an_incident_is_resolved", Suite::incident);
    cases.put("a_timeout_is_shortened_and_the_job_comes_again", Suite::timeout);
    cases.put("set_variables_reach_the_next_job", Suite::variables);
    cases.put("a_cancelled_instance_is_gone", Suite::cancel);
    cases.put("a_held_poll_wakes_and_an_empty_one_ends_on_time", Suite::held);
    cases.put("what_the_engine_cannot_do_is_said_by_name", Suite::unimplemented);
    int failed = 0;
    zeebe = ZeebeClient.newClientBuilder()
        .grpcAddress(URI.create("http://" + ADDRESS))
        .preferRestOverGrpc(false)
        .usePlaintext()
        .build();
    for (var entry : cases.entrySet()) {
      try {
        entry.getValue().run();
        System.out.println("ok      zeebe-client-java: " + entry.getKey());
      } catch (Throwable error) {
        failed += 1;
        System.out.println("FAILED  zeebe-client-java: " + entry.getKey());
        error.printStackTrace();
      }
    }
    zeebe.close();
    System.exit(failed > 0 ? 1 : 0);
  }

  static void topology() {
    var topology = zeebe.newTopologyRequest().send().join();
    check(topology.getClusterSize() == 1 && topology.getGatewayVersion().startsWith("8.6.0"), topology);
    var partition = topology.getBrokers().get(0).getPartitions().get(0);
    check(partition.isLeader() && partition.getPartitionId() == 1, topology);
  }

  static void twenty(String name, boolean stream) throws Exception {
    deploy(name);
    var done = new CopyOnWriteArrayList<Object>();
    for (int number = 0; number < 10; number++) create(name, Map.of("number", number));
    try (JobWorker worker = zeebe.newWorker()
        .jobType(name + "-charge")
        .handler((client, job) -> {
          done.add(job.getVariable("number"));
          client.newCompleteCommand(job).variables(Map.of("charged", false)).send().join();
        })
        .streamEnabled(stream)
        .open()) {
      for (int number = 10; number < 20; number++) create(name, Map.of("number", number));
      until("all are done", () -> done.size() >= 20);
      Thread.sleep(300);
    }
    check(done.size() == 20 && done.stream().distinct().count() == 20, done);
  }

  static void pushed() throws Exception {
    deploy("v-pushed");
    var came = new CopyOnWriteArrayList<Instant>();
    try (JobWorker worker = zeebe.newWorker()
        .jobType("v-pushed-charge")
        .handler((client, job) -> {
          came.add(Instant.now());
          client.newCompleteCommand(job).send().join();
        })
        .streamEnabled(true)
        .pollInterval(ofSeconds(60))
        .open()) {
      Thread.sleep(1500);
      var created = Instant.now();
      create("v-pushed", Map.of());
      until("it came", () -> !came.isEmpty());
      var took = Duration.between(created, came.get(0));
      check(took.toMillis() < 1000, took);
    }
  }

  static void backOff() throws Exception {
    deploy("v-backs-off");
    create("v-backs-off", Map.of());
    var job = one("v-backs-off-charge");
    zeebe.newFailCommand(job).retries(2).retryBackoff(ofMillis(1200)).errorMessage("later").send().join();
    var failed = Instant.now();
    var again = one("v-backs-off-charge");
    check(Duration.between(failed, Instant.now()).toMillis() > 1100, "too early");
    check(again.getKey() == job.getKey() && again.getRetries() == 2, again);
  }

  static void exception() throws Exception {
    deploy("v-fails");
    create("v-fails", Map.of());
    var tries = new CopyOnWriteArrayList<Integer>();
    try (JobWorker worker = zeebe.newWorker()
        .jobType("v-fails-charge")
        .handler((client, job) -> {
          tries.add(job.getRetries());
          if (tries.size() < 3) throw new IllegalStateException("not yet");
          client.newCompleteCommand(job).send().join();
        })
        .open()) {
      until("the third try", () -> tries.size() == 3);
    }
    check(tries.equals(List.of(3, 2, 1)), tries);
  }

  static void businessError() {
    deploy("v-throws");
    create("v-throws", Map.of());
    zeebe.newThrowErrorCommand(one("v-throws-charge")).errorCode("NO_FUNDS").errorMessage("empty").send().join();
    one("v-throws-refund");
  }

  static void incident() {
    deploy("v-incident");
    long instance = create("v-incident", Map.of());
    var job = one("v-incident-charge");
    long key = zeebe.newSetVariablesCommand(instance).variables(Map.of("mark", 1)).send().join().getKey();
    zeebe.newFailCommand(job).retries(0).errorMessage("broken").send().join();
    // Keys are given out in order; nothing else happens on this engine now.
    long incident = key + 1;
    zeebe.newUpdateRetriesCommand(job).retries(1).send().join();
    zeebe.newResolveIncidentCommand(incident).send().join();
    check(one("v-incident-charge").getKey() == job.getKey(), "another job");
    refused(Status.Code.NOT_FOUND, "no such incident was found",
        () -> zeebe.newResolveIncidentCommand(incident).send().join());
  }

  static void timeout() {
    deploy("v-timeout");
    create("v-timeout", Map.of());
    var job = one("v-timeout-charge");
    zeebe.newUpdateTimeoutCommand(job).timeout(ofMillis(300)).send().join();
    var again = one("v-timeout-charge");
    check(again.getKey() == job.getKey() && again.getRetries() == 3, again);
  }

  static void variables() {
    deploy("v-sets");
    long instance = create("v-sets", Map.of("a", 1));
    var job = one("v-sets-charge");
    check(job.getCustomHeaders().equals(Map.of("currency", "EUR")), job);
    zeebe.newSetVariablesCommand(instance).variables(Map.of("a", Long.MAX_VALUE)).send().join();
    zeebe.newCompleteCommand(job).variables(Map.of("charged", true)).send().join();
    var seen = one("v-sets-ship").getVariablesAsMap();
    check(seen.equals(Map.of("a", Long.MAX_VALUE, "charged", true)), seen);
  }

  static void cancel() {
    deploy("v-cancels");
    long instance = create("v-cancels", Map.of());
    var job = one("v-cancels-charge");
    zeebe.newCancelInstanceCommand(instance).send().join();
    refused(Status.Code.NOT_FOUND, "Command 'COMPLETE' rejected with code 'NOT_FOUND'",
        () -> zeebe.newCompleteCommand(job).send().join());
    refused(Status.Code.NOT_FOUND, "Command 'CANCEL' rejected with code 'NOT_FOUND'",
        () -> zeebe.newCancelInstanceCommand(instance).send().join());
  }

  static void held() throws Exception {
    deploy("v-held");
    var started = Instant.now();
    check(poll("v-held-charge", ofMillis(1500)).isEmpty(), "not empty");
    long took = Duration.between(started, Instant.now()).toMillis();
    check(took >= 1400 && took < 3000, took);
    var held = zeebe.newActivateJobsCommand().jobType("v-held-charge").maxJobsToActivate(1)
        .requestTimeout(ofSeconds(30)).send();
    Thread.sleep(300);
    create("v-held", Map.of());
    check(held.join(2, TimeUnit.SECONDS).getJobs().size() == 1, "not woken");
  }

  static void unimplemented() {
    refused(Status.Code.UNIMPLEMENTED, "m87's engine cannot publish a message",
        () -> zeebe.newPublishMessageCommand().messageName("m").correlationKey("k").send().join());
  }

  static void deploy(String name) {
    var text = order.replace("NAME", name).getBytes(StandardCharsets.UTF_8);
    zeebe.newDeployResourceCommand().addResourceBytes(text, name + ".bpmn").send().join();
  }

  static long create(String name, Map<String, Object> variables) {
    return zeebe.newCreateInstanceCommand().bpmnProcessId(name).latestVersion().variables(variables).send().join()
        .getProcessInstanceKey();
  }

  static List<ActivatedJob> poll(String type, Duration requestTimeout) {
    return zeebe.newActivateJobsCommand().jobType(type).maxJobsToActivate(32).timeout(ofSeconds(60))
        .requestTimeout(requestTimeout).send().join().getJobs();
  }

  static ActivatedJob one(String type) {
    var jobs = poll(type, ofSeconds(5));
    check(jobs.size() == 1, jobs);
    return jobs.get(0);
  }

  static void refused(Status.Code code, String part, Runnable call) {
    try {
      call.run();
    } catch (ClientStatusException error) {
      check(error.getStatusCode() == code && error.getMessage().contains(part), error);
      return;
    }
    throw new AssertionError("accepted, though it should be refused: " + part);
  }

  static void until(String what, BooleanSupplier holds) throws InterruptedException {
    var end = Instant.now().plusSeconds(20);
    while (!holds.getAsBoolean()) {
      if (Instant.now().isAfter(end)) throw new AssertionError("not reached: " + what);
      Thread.sleep(20);
    }
  }

  static void check(boolean holds, Object found) {
    if (!holds) throw new AssertionError(String.valueOf(found));
  }
}
