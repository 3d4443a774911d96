import { Files } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'batches',
    path: 'batches',
    component: () => import('./BatchesPage.vue'),
    title: 'batches.title',
    operations: ['listBatches'],
    nav: { section: 'messages', order: 25, icon: Files },
  },
  {
    name: 'new-batch',
    path: 'batches/new',
    component: () => import('./NewBatchPage.vue'),
    title: 'batches.new.title',
    operations: ['createBatch'],
  },
  {
    name: 'batch',
    path: 'batches/:batch_id(\\d+)',
    component: () => import('./BatchPage.vue'),
    title: 'batches.batch',
    operations: ['getBatch'],
  },
]
