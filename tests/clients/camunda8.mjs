// The JavaScript SDK over gRPC: its worker, its stream, its batch calls. Run by `run`, with the SDK in $MODULES.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import assert from 'node:assert/strict'

const { Camunda8 } = createRequire(`${process.env.MODULES}/`)('@camunda8/sdk')

const options = {
  ZEEBE_GRPC_ADDRESS: `grpc://${process.env.ADDRESS}`,
  CAMUNDA_OAUTH_DISABLED: true,
  CAMUNDA_AUTH_STRATEGY: 'NONE',
  CAMUNDA_LOG_LEVEL: 'none',
  zeebeGrpcSettings: { ZEEBE_CLIENT_LOG_LEVEL: 'NONE', ZEEBE_GRPC_CLIENT_RETRY: false },
}
const client = () => new Camunda8(options).getZeebeGrpcApiClient()
const zeebe = client()

const deploy = (name) => {
  const text = readFileSync(new URL('order.bpmn', import.meta.url), 'utf8').replaceAll('NAME', name)
  return zeebe.deployResource({ process: Buffer.from(text), name: `${name}.bpmn` })
}
const create = (name, variables = {}) => zeebe.createProcessInstance({ bpmnProcessId: name, variables })
const poll = (type, more = {}) =>
  zeebe.activateJobs({ type, worker: 'suite', timeout: 60_000, maxJobsToActivate: 32, requestTimeout: 5_000, ...more })
const one = async (type, more) => {
  const jobs = await poll(type, more)
  assert.equal(jobs.length, 1, `one job of ${type}`)
  return jobs[0]
}
const until = async (holds, what) => {
  for (const end = Date.now() + 20_000; !holds(); ) {
    assert(Date.now() < end, `not reached: ${what}`)
    await sleep(20)
  }
}
const refused = async (promise, code, part) => {
  const error = await promise.then(() => assert.fail(`accepted, though it should be refused: ${part}`), (error) => error)
  assert.equal(error.code, code, `${error}`)
  assert(error.details.includes(part), error.details)
}

const cases = {
  async topology_is_read() {
    const topology = await zeebe.topology()
    assert.equal(topology.clusterSize, 1)
    assert.equal(topology.brokers[0].partitions[0].role, 'LEADER')
    assert(topology.gatewayVersion.startsWith('8.6.0'))
  },

  async a_worker_does_each_job_once() {
    await deploy('j-worker')
    const done = []
    const worker = zeebe.createWorker({
      taskType: 'j-worker-charge',
      taskHandler: (job) => {
        done.push(job.variables.number)
        return job.complete({ charged: false })
      },
    })
    for (let number = 0; number < 20; number++) await create('j-worker', { number })
    await until(() => done.length >= 20, 'all are done')
    await sleep(300)
    assert.deepEqual(done.toSorted((a, b) => a - b), [...Array(20).keys()])
    await worker.close()
  },

  async a_stream_brings_the_backlog_and_what_comes() {
    await deploy('j-stream')
    await create('j-stream', { number: 0 })
    const seen = []
    const stream = await zeebe.streamJobs({
      type: 'j-stream-charge',
      worker: 'suite',
      timeout: 60_000,
      taskHandler: (job) => {
        seen.push(job.variables.number)
        return job.complete({ charged: false })
      },
    })
    await until(() => seen.length === 1, 'the backlog')
    await create('j-stream', { number: 1 })
    await until(() => seen.length === 2, 'the push')
    assert.deepEqual(seen, [0, 1])
    await stream.close()
  },

  async a_job_is_not_lost_to_a_stream_that_was_closed() {
    await deploy('j-closed')
    const stream = await zeebe.streamJobs({
      type: 'j-closed-charge',
      worker: 'suite',
      timeout: 60_000,
      taskHandler: (job) => job.forward(),
    })
    await stream.close()
    await sleep(200)
    await create('j-closed')
    await one('j-closed-charge')
  },

  async a_worker_that_fails_with_a_back_off_is_tried_again_after_it() {
    await deploy('j-fails')
    const tries = []
    const worker = zeebe.createWorker({
      taskType: 'j-fails-charge',
      taskHandler: (job) => {
        tries.push([Date.now(), job.retries])
        if (tries.length === 1) return job.fail({ errorMessage: 'later', retries: 2, retryBackOff: 1200 })
        return job.complete({})
      },
    })
    await create('j-fails')
    await until(() => tries.length === 2, 'the second try')
    assert(tries[1][0] - tries[0][0] > 1150, `${tries}`)
    assert.deepEqual(tries.map(([, retries]) => retries), [3, 2])
    await worker.close()
  },

  async a_business_error_is_caught_by_its_code() {
    await deploy('j-throws')
    const worker = zeebe.createWorker({
      taskType: 'j-throws-charge',
      taskHandler: (job) => job.error({ errorCode: 'NO_FUNDS', errorMessage: 'empty' }),
    })
    await create('j-throws')
    await one('j-throws-refund')
    await worker.close()
  },

  async an_incident_is_resolved() {
    await deploy('j-incident')
    const { processInstanceKey } = await create('j-incident')
    const job = await one('j-incident-charge')
    const { key } = await zeebe.setVariables({ elementInstanceKey: processInstanceKey, variables: { mark: 1 }, local: false })
    await zeebe.failJob({ jobKey: job.key, retries: 0, errorMessage: 'broken', retryBackOff: 0 })
    assert.deepEqual(await poll('j-incident-charge', { requestTimeout: -1 }), [])
    await zeebe.updateJobRetries({ jobKey: job.key, retries: 1 })
    // Keys are given out in order; nothing else happens on this engine now.
    await zeebe.resolveIncident({ incidentKey: `${BigInt(key) + 1n}` })
    assert.equal((await one('j-incident-charge')).key, job.key)
  },

  async a_timeout_is_shortened_and_the_job_comes_again() {
    await deploy('j-timeout')
    await create('j-timeout')
    const job = await one('j-timeout-charge')
    await zeebe.updateJobTimeout({ jobKey: job.key, timeout: 300 })
    const again = await one('j-timeout-charge')
    assert.deepEqual([again.key, again.retries], [job.key, 3])
  },

  async set_variables_and_headers_reach_the_next_job() {
    await deploy('j-sets')
    const { processInstanceKey } = await create('j-sets', { a: 1 })
    const job = await one('j-sets-charge')
    assert.equal(job.customHeaders.currency, 'EUR')
    await zeebe.setVariables({ elementInstanceKey: processInstanceKey, variables: { a: 2, b: { c: [true] } }, local: false })
    await zeebe.completeJob({ jobKey: job.key, variables: { charged: true } })
    assert.deepEqual({ ...(await one('j-sets-ship')).variables }, { a: 2, b: { c: [true] }, charged: true })
  },

  async a_cancelled_instance_is_gone() {
    await deploy('j-cancels')
    const { processInstanceKey } = await create('j-cancels')
    const job = await one('j-cancels-charge')
    await zeebe.cancelProcessInstance(processInstanceKey)
    await refused(zeebe.cancelProcessInstance(processInstanceKey), 5, "Command 'CANCEL' rejected with code 'NOT_FOUND'")
    await refused(
      zeebe.completeJob({ jobKey: job.key, variables: {} }),
      5,
      `Expected to complete job with key '${job.key}', but no such job was found`,
    )
  },

  async a_poll_is_held_as_long_as_it_asks_and_no_longer() {
    for (const [requestTimeout, least, most] of [[-1, 0, 500], [1500, 1400, 2500]]) {
      const started = Date.now()
      assert.deepEqual(await poll('j-nothing', { requestTimeout }), [])
      const took = Date.now() - started
      assert(took >= least && took <= most, `${requestTimeout}: ${took}`)
    }
  },

  async a_held_poll_wakes_for_a_new_job() {
    await deploy('j-wakes')
    const held = one('j-wakes-charge', { requestTimeout: 30_000 })
    await sleep(300)
    const created = Date.now()
    await create('j-wakes')
    await held
    assert(Date.now() - created < 1000)
  },

  async what_the_engine_cannot_do_is_said_by_name() {
    await refused(
      zeebe.publishMessage({ name: 'm', correlationKey: 'k', variables: {}, timeToLive: 0 }),
      12,
      "m87's engine cannot publish a message",
    )
  },
}

let failed = 0
for (const [name, run] of Object.entries(cases)) {
  try {
    await Promise.race([run(), sleep(60_000, undefined, { ref: false }).then(() => assert.fail('it took over a minute'))])
    console.log(`ok      camunda8-sdk: ${name}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED  camunda8-sdk: ${name}`)
    console.error(error)
  }
}
await zeebe.close()
process.exit(failed > 0 ? 1 : 0)
