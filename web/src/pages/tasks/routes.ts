import { ChatLineSquare, Files } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'tasks',
    path: 'tasks',
    component: () => import('./TasksPage.vue'),
    title: 'tasks.title',
    operations: ['listTasks'],
    nav: { section: 'messages', order: 10, icon: ChatLineSquare },
  },
  {
    name: 'task',
    path: 'tasks/:task_id',
    component: () => import('./TaskPage.vue'),
    title: 'tasks.task',
    operations: ['getTask'],
  },
  {
    name: 'task-jobs',
    path: 'task-jobs',
    component: () => import('./JobsPage.vue'),
    title: 'jobs.title',
    operations: ['listTaskJobs'],
    nav: { section: 'administration', order: 50, icon: Files },
  },
]
