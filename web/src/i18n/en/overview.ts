import type { Texts } from '..'
import type zh from '../zh/overview'

const texts: Texts<typeof zh> = {
  title: 'Overview',
  hint: 'The service at this moment. The figures update by themselves.',
  ofCompany: 'The company {company} at this moment. The figures update by themselves.',
  at: 'As of {time}',
  perSecond: '{rate}/s',
  queue: {
    label: 'Tasks waiting',
    parts: '{fresh} new, {retry} to retry; {processing} more are being sent.',
    show: 'Show them',
  },
  wait: {
    label: 'Oldest wait',
    nothing: 'None',
    none: 'No task is due',
    normal: 'Normal',
    warning: 'Warning',
    critical: 'Critical',
    emergency: 'Emergency',
  },
  in: {
    label: 'Rate in',
    text: 'Submitted in the last 10 s, also those that were cancelled',
  },
  out: {
    label: 'Rate out',
    text: 'Succeeded in the last 10 s; failed: {rate}',
  },
  success: {
    hour: 'Success rate, last hour',
    ever: 'Success rate, all tasks',
    parts: '{succeeded} succeeded, {failed} failed',
  },
  p95: 'Wait p95, last hour',
  p95Text: '95% of the tasks were claimed within this time',
  alerts: {
    label: 'Alerts',
    some: 'Firing',
    none: 'Nothing fires',
    title: 'Firing alerts',
    show: 'All alerts',
    started: 'started {ago}',
    acknowledged: 'acknowledged by {who}',
    more: 'Only the newest is shown. | Only the newest {n} are shown.',
  },
  held: { title: 'Held messages', line: '{by}: {n} wait' },
  senders: {
    title: 'Senders',
    ready: '{n} ready',
    notReady: '{n} not ready',
    allReady: 'Every sender that is on can take tasks.',
    more: '{more} more are not ready.',
    showAll: 'Show all senders',
    reasons: {
      paused: 'Paused',
      outside_hours: 'Outside its hours',
      no_quota: 'Limit reached',
      no_funds: 'No balance',
      silent: 'Silent',
    },
    help: {
      paused: 'The provider failed again and again. The service pauses and tries again by itself. Look at its last answers.',
      outside_hours: 'It gets no tasks at this time of day. Its hours are among its settings.',
      no_quota: 'Its limits are used up until the next window begins. Raise them if that is too late.',
      no_funds: 'Its balance is used up. Add to it, or route the tasks to another sender.',
      silent: 'The phone or gateway has not asked for tasks lately. Check that its app runs and has a network.',
    },
  },
  charts: {
    hourTasks: 'Tasks of the last hour, per minute',
    hourTasksEmpty: 'No tasks in the last hour.',
    hourWaits: 'Waits of the last hour, per minute',
    hourWaitsEmpty: 'No task was claimed in the last hour.',
    weekTasks: 'Tasks of the last 7 days, per hour',
    weekTasksEmpty: 'No tasks in the last 7 days.',
    weekWaits: 'Waits of the last 7 days, per hour',
    weekWaitsEmpty: 'No task was claimed in the last 7 days.',
  },
  first: {
    title: 'Start here',
    done: 'Done',
    sender: {
      title: 'Have something that sends',
      text: 'Open the simulated phone to see a message go out without any phone, or add a real phone, gateway or provider.',
      ask: 'No sender is there yet. Ask an administrator to add one.',
    },
    message: {
      title: 'Send the first message',
      text: 'Enter a number and a text. The page says how many segments it has and who will send it.',
      ask: 'Systems submit messages over the API. They appear here.',
    },
    watch: {
      title: 'Watch it go out',
      text: 'A task shows each of its steps: submitted, claimed, reported.',
      ask: 'When tasks are sent and reported, rates, success and charts appear here.',
    },
    open: {
      phone: 'Open the simulated phone',
      senders: 'Add a sender',
      compose: 'Compose a message',
      tasks: 'Show the tasks',
    },
  },
}
export default texts
