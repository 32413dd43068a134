// kafkajs: its consumers are members of groups, and no others.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

// Record `number` of a producer: README.md says the rule.
function record (name, number, kind) {
  const text = Buffer.from(`${name}-${number}`)
  const hasKey = number % 3 !== 2
  const all = Buffer.from(Array.from({ length: 256 }, (_, each) => each))
  const message = {
    partition: 0,
    key: hasKey ? text : null,
    value: number % 11 === 10 ? Buffer.alloc(0) : Buffer.concat([text, Buffer.from('-'), all])
  }
  if (kind === 'plain') return message
  if (hasKey && number % 10 === 9) message.key = Buffer.alloc(0)
  if (hasKey && number % 7 === 6) message.value = null
  message.headers = { h: [String(number), Buffer.from([0xff, 0])] }
  if (kind === 'all') message.headers.null = null
  return message
}

async function produce (servers, topic, codec, count, name, kind) {
  const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.ERROR })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = []
  for (let number = 0; number < count; number++) {
    messages.push(record(name, number, kind))
  }
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  const told = await producer.send({ topic, acks: -1, compression, messages })
  await producer.disconnect()
  const first = Number(told[0].baseOffset)
  console.log(JSON.stringify(messages.map((_, number) => first + number)))
}

async function share (servers, topic, group) {
  const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 500 })
  const say = (...event) => console.log(JSON.stringify(event))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say('assigned', payload.memberAssignment[topic] || []))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => say('record', partition, Number(message.offset))
  })
  await new Promise(resolve => process.stdin.on('end', resolve).resume())
  await consumer.disconnect()
}

async function introduce (servers, topic, group, count) {
  const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId: group })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let taken = 0
  await new Promise((resolve, reject) => {
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        if (taken < count) console.log(JSON.stringify([partition, Number(message.offset)]))
        if (++taken === count) resolve()
      }
    }).catch(reject)
  })
  await consumer.stop()
  await consumer.disconnect()
}

const [command, servers, topic, codec, count, name, kind] = process.argv.slice(2)
const commands = {
  produce: () => produce(servers, topic, codec, Number(count), name, kind),
  share: () => share(servers, topic, codec),
  introduce: () => introduce(servers, topic, codec, Number(count))
}
if (!(command in commands)) {
  console.error('kafkajs has no consumer without a group')
  process.exit(1)
}
commands[command]().then(
  () => process.exit(0),
  error => { console.error(error.message); process.exit(1) }
)
