// A program that uses the package smpp of npm: node node.cjs client|server CORPUS PORT. It sends the texts of the file CORPUS in each of the four forms of long
// messages, and writes the texts that it receives, one JSON object a line.
const { readFileSync } = require("node:fs")
const smpp = require("smpp")

const [role, corpus, port] = process.argv.slice(2)
const texts = JSON.parse(readFileSync(corpus, "utf8"))
const forms = ["udh8", "udh16", "sar", "payload"]
const print = (object) => process.stdout.write(JSON.stringify(object) + "\n")
let reference = 300

// cut splits a text into parts of at most limit units; extended characters of GSM 7-bit have two.
function cut(text, limit, size) {
  const parts = [""]
  let filled = 0
  for (const character of text) {
    const n = size(character)
    if (filled + n > limit) (parts.push(""), (filled = 0))
    parts[parts.length - 1] += character
    filled += n
  }
  return parts
}

// pdus returns the fields of the messages that send a text.
function pdus(text, form) {
  const isGSM = smpp.encodings.ASCII.match(text)
  const common = { source_addr: "106900", destination_addr: "8613800138000", data_coding: isGSM ? 0 : 8 }
  const size = (c) => (isGSM ? ("\f^{}\\[~]|€".includes(c) ? 2 : 1) : c.length)
  if (cut(text, isGSM ? 160 : 70, size).length === 1) return [{ ...common, short_message: { message: text } }]
  if (form === "payload") return [{ ...common, message_payload: { message: text } }]
  const parts = cut(text, isGSM ? 152 : 66, size)
  const [high, low] = [++reference >> 8, reference & 255]
  return parts.map((message, i) => {
    if (form === "sar") {
      return { ...common, short_message: { message }, sar_msg_ref_num: reference, sar_total_segments: parts.length, sar_segment_seqnum: i + 1 }
    }
    const udh = form === "udh8" ? [5, 0, 3, low, parts.length, i + 1] : [6, 8, 4, high, low, parts.length, i + 1]
    return { ...common, short_message: { message, udh: Buffer.from(udh) } }
  })
}

async function sendAll(session, command) {
  for (const form of forms) {
    for (const text of texts) {
      for (const pdu of pdus(text, form)) {
        const answer = await new Promise((done) => session[command](pdu, done))
        if (answer.command_status !== 0) print({ error: `${command} was answered with ${answer.command_status}` })
      }
    }
  }
}

// receive joins the parts of messages and prints their texts.
function receive(session, pdu, waiting) {
  session.send(pdu.response({ message_id: String(pdu.sequence_number) }))
  const content = pdu.message_payload ?? pdu.short_message
  const text = content.message
  if (pdu.esm_class & 4) return print({ receipt: text, id: pdu.receipted_message_id, state: pdu.message_state })
  let part = [pdu.sar_msg_ref_num, pdu.sar_total_segments, pdu.sar_segment_seqnum]
  const udh = content.udh?.[0]
  if (udh) part = udh[0] === 0 ? [udh[2], udh[3], udh[4]] : [udh.readUInt16BE(2), udh[4], udh[5]]
  if (!part[1]) return print({ text })
  const parts = (waiting[part[0]] ??= [])
  parts[part[2] - 1] = text
  if (Object.keys(parts).length === part[1]) {
    delete waiting[part[0]]
    print({ text: parts.join("") })
  }
}

function listen(session) {
  const waiting = {}
  let received = 0
  for (const command of ["submit_sm", "deliver_sm"]) session.on(command, (pdu) => receive(session, pdu, waiting, ++received))
  session.on("enquire_link", (pdu) => session.send(pdu.response()))
  session.on("unbind", (pdu) => session.send(pdu.response(), () => (session.close(), process.exit(0))))
  session.on("error", (e) => (print({ error: String(e) }), process.exit(1)))
}

function bind(session, password) {
  return new Promise((done) => session.bind_transceiver({ system_id: "stranger", password, interface_version: 0x34 }, done))
}

async function client() {
  const connect = () => new Promise((done) => { const session = smpp.connect({ host: "127.0.0.1", port: Number(port) }, () => done(session)) })
  const rejected = await connect()
  print({ bind: (await bind(rejected, "wrong")).command_status })
  rejected.destroy()
  const session = await connect()
  listen(session)
  print({ bind: (await bind(session, "secret")).command_status })
  await sendAll(session, "submit_sm")
  await new Promise((done) => session.enquire_link(done))
  print({ done: true })
}

function server() {
  const listener = smpp.createServer((session) => {
    listen(session)
    session.on("bind_transceiver", async (pdu) => {
      if (pdu.password !== "secret") return session.send(pdu.response({ command_status: smpp.ESME_RINVPASWD }), () => session.close())
      session.send(pdu.response({ system_id: "npm" }))
      await sendAll(session, "deliver_sm")
      print({ done: true })
    })
  })
  listener.listen(0, "127.0.0.1", () => print({ port: listener.address().port }))
}

role === "client" ? client() : server()
