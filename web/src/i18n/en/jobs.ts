import type { Texts } from '..'
import type zh from '../zh/jobs'

const texts: Texts<typeof zh> = {
  title: 'Jobs',
  hint: 'Cancelling and requeueing many tasks goes on in the background: leave this page, and find the progress here later.',
  id: 'Id',
  what: 'Job',
  progress: 'Progress',
  progressOf: 'Progress of job {id}',
  ofTotal: '{done} of {total}',
  counts: '{done} done, {skipped} skipped, {failed} failed',
  skipped: '{n} skipped: {why}',
  status: 'State',
  created: 'Created',
  finished: 'Ended',
  remark: 'Reason',
  showTasks: 'Show these tasks',
  toTasks: 'Go to the tasks',
  action: {
    cancel: 'Cancel tasks',
    requeue: 'Requeue tasks',
  },
  state: {
    running: 'Running',
    finished: 'Finished',
    stopped: 'Stopped',
  },
  stopOne: 'Stop job {id}',
  stop: {
    title: 'Stop job {id}?',
    text: 'Tasks that the job has changed stay changed. It changes no others, and it cannot be continued.',
    things: 'tasks stay as they are | task stays as it is | tasks stay as they are',
    button: 'Stop',
  },
  empty: {
    title: 'No jobs yet',
    text: 'Filter the list of tasks, then choose “Cancel or requeue many”.',
  },
  form: {
    title: 'Cancel or requeue many tasks',
    act: 'What to do',
    acts: {
      requeueFailed: 'Requeue failed tasks',
      requeueCancelled: 'Requeue cancelled tasks',
      cancel: 'Cancel pending tasks',
    },
    button: {
      cancel: 'Cancel these tasks',
      'requeue-failed': 'Requeue these tasks',
      'requeue-cancelled': 'Requeue these tasks',
    },
    which: 'Which tasks',
    all: 'No filter: all tasks that you can see.',
    narrow: 'These are the filters of the list. To change them, close this form and search again.',
    counting: 'Counting…',
    notCounted: 'The tasks are not counted yet: wait a moment.',
    recount: 'Count again',
    things: 'tasks | task | tasks',
    capped: 'More than a job may change: narrow the list, for example by time.',
    wrongNumber: 'is not the number of tasks: type {count}',
    cancelText: 'These tasks will not be sent. A job has no undo, but cancelled tasks can be requeued.',
    requeueText: 'These messages are really sent again. Where it is unknown whether one was sent before, the person may get it twice. A job has no undo.',
    remarkHint: 'Optional. The timeline of each task shows it.',
  },
}
export default texts
