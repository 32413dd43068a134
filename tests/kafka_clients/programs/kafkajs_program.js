// kafkajs: a producer alone, for its consumers need groups.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

async function produce (servers, topic, codec, count, name) {
  const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.ERROR })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = []
  for (let number = 0; number < count; number++) {
    messages.push({
      partition: 0,
      key: number % 3 === 2 ? null : `${name}-${number}`,
      value: number % 7 === 6 && number % 3 !== 2 ? null : `${name}-${number}-` + 'x'.repeat(100),
      headers: { h: String(number) }
    })
  }
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  const told = await producer.send({ topic, acks: -1, compression, messages })
  await producer.disconnect()
  const first = Number(told[0].baseOffset)
  console.log(JSON.stringify(messages.map((_, number) => first + number)))
}

const [command, servers, topic, codec, count, name] = process.argv.slice(2)
if (command !== 'produce') {
  console.error('kafkajs has no consumer without a group')
  process.exit(1)
}
produce(servers, topic, codec, Number(count), name).then(
  () => process.exit(0),
  error => { console.error(error.message); process.exit(1) }
)
